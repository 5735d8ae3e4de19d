"""Components that make saving slow, let it fail, or have states that are hard to save; a local file."""

from __future__ import annotations

import errno
import gc
import os
import re
import resource
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pipeline import Hook, Metric, register
from pipeline.engine.checkpoint import Checkpoint
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


@register("hook", "held_disk")
class HeldDisk(Hook):
    """Holds the writing of checkpoints until the file ``go`` lies in the run's folder.

    The file ``writing`` has the step of the one that is held; ``go`` comes by itself after a step, if asked.
    """

    def __init__(self, go_after: int | None = None) -> None:
        self.go_after = go_after

    def on_run_start(self, run):
        real = store.write_hashed
        writing, go = run.folder / "writing", run.folder / "go"

        def write(path, content):
            if not go.exists():
                writing.write_text(str(_step_of(path)))
            while not go.exists():
                time.sleep(0.002)
            return real(path, content)

        store.write_hashed = write

    def on_step_end(self, run):
        if run.step == self.go_after:
            (run.folder / "go").touch()


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


@register("model", "told_apart")
class ToldApart(nn.Module):
    """Tied weights, a buffer, and extra state: a count of the calls, as plain data or not."""

    def __init__(self, plain: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 3)
        self.plain = plain
        self.calls = 0

    def forward(self, inputs):
        self.calls += self.training
        return self.last(self.norm(self.tied(torch.tanh(self.first(inputs)))))

    def get_extra_state(self):
        return {"calls": self.calls} if self.plain else {"calls": {1, "x", object()}}

    def set_extra_state(self, state):
        self.calls = state["calls"]


@register("model", "tied")
class Tied(ToldApart):
    """The same without extra state, so that plain torch loads its file strictly."""

    get_extra_state = nn.Module.get_extra_state
    set_extra_state = nn.Module.set_extra_state


@register("metric", "scripted")
class Scripted(Metric):
    """Gives one value of a list after the other, told by one rank or all, and another one on one rank."""

    def __init__(self, values: list[float], by: int | None = None, apart: float = 0.0) -> None:
        super().__init__()
        self.values = values
        self.by = by
        self.apart = apart
        self.evaluations = 0
        self.add_state("told", torch.zeros((), dtype=torch.float64), "max")

    def update(self, outcome):
        rank = int(os.environ["RANK"])
        if self.by is None or rank == self.by:
            self.told = torch.tensor(self.values[self.evaluations], dtype=torch.float64)

    def compute(self):
        self.evaluations += 1
        return self.told + self.apart * int(os.environ["RANK"])


@register("hook", "clock")
class Clock(Hook):
    """Asks for a checkpoint when some time has gone by."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.last = time.monotonic()

    def on_step_end(self, run):
        if time.monotonic() - self.last > self.seconds:
            self.last = time.monotonic()
            run.checkpoint("the clock")


@register("hook", "late_rank")
class LateRank(Hook):
    """One rank comes late to every save."""

    ranks = "all"

    def __init__(self, rank: int, seconds: float = 0.05) -> None:
        self.rank = rank
        self.seconds = seconds
        self.late = False

    def on_run_start(self, run):
        self.late = run.world.rank == self.rank

    def state_dict(self):
        if self.late:
            time.sleep(self.seconds)
        return {"late": self.late}


@register("hook", "file_size_limit")
class FileSizeLimit(Hook):
    """Lets this process write no file beyond some bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def on_run_start(self, run):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


# Where a test asks for it, rank 1 sees no checkpoints folder from here on.
if os.environ.get("RANK") == "1" and os.environ.get("BLIND"):
    _real_is_dir, _real_exists = Path.is_dir, Path.exists
    Path.is_dir = lambda self: "checkpoints" not in str(self) and _real_is_dir(self)
    Path.exists = lambda self, **_: "checkpoints" not in str(self) and _real_exists(self)


@register("hook", "memory_witness")
class MemoryWitness(Hook):
    """Says which checkpoints this process still holds in memory as they were read."""

    ranks = "all"

    def on_step_end(self, run):
        held = [one.name for one in gc.get_objects() if isinstance(one, Checkpoint)]
        with (run.folder / f"held-{run.world.rank}.txt").open("a") as file:
            file.write(f"{run.step} {held}\n")
