"""Hooks that end processes without a word; a local file of its own, beside parts.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from typing import Literal

import torch.distributed as dist

from pipeline import Hook, register


def kill_all(run):
    """Kill all ranks at once: none may live on for a moment and record the death of another."""
    pids = [os.getpid()] * run.world.world_size
    if dist.is_initialized():
        dist.all_gather_object(pids, os.getpid())
    if run.world.rank == 0:
        for thread in threading.enumerate():
            if thread.name.startswith("checkpoint of step"):
                thread.join()
        main, *others = map(str, pids)
        freeze = f"kill -STOP {' '.join(others)}; " if others else ""
        subprocess.Popen(["sh", "-c", f"{freeze}kill -KILL {' '.join([main, *others])}"])
    while True:
        time.sleep(1)


@register("hook", "killer")
class Killer(Hook):
    """Kills all ranks of the job after a step, by SIGKILL.

    At the start of the epoch that follows, the checkpoint of that step is there too. One that is being
    written just then is complete first, so that a test knows which is the newest.
    """

    ranks = "all"

    def __init__(self, step: int, event: Literal["step_end", "epoch_start"] = "step_end") -> None:
        self.step = step
        self.event = event

    def on_epoch_start(self, run):
        self._maybe_kill(run, "epoch_start")

    def on_step_end(self, run):
        self._maybe_kill(run, "step_end")

    def _maybe_kill(self, run, event):
        if (run.step, event) == (self.step, self.event):
            kill_all(run)


@register("hook", "end_killer")
class EndKiller(Hook):
    """Kills the whole job when the run is over but not yet recorded as such."""

    ranks = "all"

    def on_run_end(self, run):
        kill_all(run)


@register("hook", "once_killed")
class OnceKilled(Hook):
    """Rank 1 kills itself after a step, but only the first time that it is started."""

    ranks = "all"

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step and run.world.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), 9)


@register("hook", "often_killed")
class OftenKilled(Hook):
    """One rank kills itself in each attempt: in the first after the first of these steps, and so on."""

    ranks = "all"

    def __init__(self, steps: list[int], by: list[int]) -> None:
        self.kills = list(zip(steps, by, strict=True))

    def on_step_end(self, run):
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        if (run.step, run.world.rank) in self.kills[attempt : attempt + 1]:
            os.kill(os.getpid(), 9)


@register("hook", "once_killed_and_lost")
class OnceKilledAndLost(OnceKilled):
    """As if rank 0's host were lost with rank 1's death: the run's folder goes too."""

    def on_step_end(self, run):
        if run.step == self.step and run.world.rank == 1:
            shutil.rmtree(run.folder)
        super().on_step_end(run)


@register("hook", "enough")
class Enough(Hook):
    """Ends the run when the file ``enough`` lies in its folder."""

    def on_step_end(self, run):
        if (run.folder / "enough").exists():
            run.stop("enough")
