"""Components that make saving slow, let it fail, or have states that are hard to save; a local file."""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path

import numpy as np
import torch

from pipeline import Hook, register
from pipeline.runs import store

_STEP = re.compile(r"step-(\d+)")


def _step_of(path: Path) -> int:
    match = _STEP.search(path.parent.name)
    assert match is not None
    return int(match[1])


@register("hook", "slow_disk")
class SlowDisk(Hook):
    """Makes writing a checkpoint's weights take a while; disk.txt tells what happened in which order."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_run_start(self, run):
        self.journal = (run.folder / "disk.txt").open("a", buffering=1)
        real = store.write_hashed

        def write_slowly(path, content):
            if path.name != "model.safetensors":
                return real(path, content)
            self.journal.write(f"begin {_step_of(path)}\n")
            time.sleep(self.seconds)
            entry = real(path, content)
            self.journal.write(f"end {_step_of(path)}\n")
            return entry

        store.write_hashed = write_slowly

    def on_step_end(self, run):
        self.journal.write(f"step {run.step}\n")

    def state_dict(self):
        if hasattr(self, "journal"):
            self.journal.write("snapshot\n")
        return {}


@register("hook", "broken_disk")
class BrokenDisk(Hook):
    """The disk refuses the checkpoint of one step."""

    def __init__(self, step: int, error: str = "EDQUOT") -> None:
        self.step = step
        self.number = getattr(errno, error)

    def on_run_start(self, run):
        real = store.write_hashed

        def write(path, content):
            if path.name == "state.pt" and _step_of(path) == self.step:
                raise OSError(self.number, os.strerror(self.number))
            return real(path, content)

        store.write_hashed = write


@register("hook", "witness")
class Witness(Hook):
    """Keeps the weights of every step, and a tensor of its own that it changes in place."""

    def __init__(self) -> None:
        self.counts = torch.zeros(3)

    def on_step_end(self, run):
        self.counts += 1
        momenta = [state["momentum_buffer"] for state in run.optimizer.state.values()]
        kept = {"model": run.model.state_dict(), "momenta": momenta, "counts": self.counts}
        torch.save(kept, run.folder / f"witness-{run.step}.pt")

    def state_dict(self):
        return {"counts": self.counts}

    def load_state_dict(self, state):
        self.counts = state["counts"]


@register("hook", "rank_thrower")
class RankThrower(Hook):
    """Raises on one rank, after a step or when its state is asked for."""

    ranks = "all"

    def __init__(self, step: int, rank: int, in_state: bool = False) -> None:
        self.step = step
        self.rank = rank
        self.in_state = in_state
        self.now = False

    def on_step_end(self, run):
        self.now = run.step == self.step and run.world.rank == self.rank
        if self.now and not self.in_state:
            raise ValueError("broken on purpose")

    def state_dict(self):
        if self.now and self.in_state:
            raise ValueError("broken on purpose")
        return {}


@register("hook", "numpy_state")
class NumpyState(Hook):
    """Keeps what a safe loader does not read."""

    def state_dict(self):
        return {"best": {"value": [1.0, np.float64(0.5)]}}
