"""Components that keep other ranks waiting; a local file, as a user would have one."""

from __future__ import annotations

import ctypes
import os
import sys
import time

import torch

from pipeline import Hook, register


@register("dataset", "slow_to_build")
class SlowToBuild:
    """Forty points that take rank 0 a while to build."""

    def __init__(self, seconds: float) -> None:
        if os.environ.get("RANK") == "0":
            time.sleep(seconds)

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((8,), float(index)).sin(), index % 3


@register("dataset", "stuck_in_c")
class StuckInC(SlowToBuild):
    """One rank waits in C for a lock that it has itself; no signal is heard there."""

    def __init__(self, rank: int) -> None:
        super().__init__(0.0)
        if os.environ.get("RANK") == str(rank):
            mutex = ctypes.create_string_buffer(64)  # zeros: an unlocked one
            ctypes.CDLL(None).pthread_mutex_lock(mutex)
            print("stuck in C", file=sys.stderr, flush=True)
            ctypes.CDLL(None).pthread_mutex_lock(mutex)


@register("hook", "sleeper")
class Sleeper(Hook):
    """Rank 1 sleeps at the end of one step."""

    ranks = "all"

    def __init__(self, seconds: float, step: int) -> None:
        self.seconds = seconds
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step and run.world.rank == 1:
            time.sleep(self.seconds)


@register("hook", "sleepy")
class Sleepy(Hook):
    """Sleeps on rank 0 after an evaluation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_evaluate_end(self, run):
        time.sleep(self.seconds)
