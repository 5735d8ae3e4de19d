"""One training by one side: what its process is told, in a JSON file that its command line names."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.workloads import WORKLOADS, Workload

LOG_EVERY = 50
"""Optimizer steps between two readings of the loss, where a side lets that be chosen."""


@dataclass(frozen=True)
class Job:
    """A training of so many steps, and where to write what came of it."""

    workload_name: str
    steps: int
    """Optimizer steps, those before the clock starts included."""
    timed: bool
    """Shuffled, for its speed; or else in the dataset's order, for the parameters that it ends with."""
    folder: str
    """Empty, for this job alone."""
    began: float = field(default_factory=time.time)
    """Unix time at which its processes are started."""

    @property
    def workload(self) -> Workload:
        return WORKLOADS[self.workload_name]

    @property
    def shuffle(self) -> bool:
        return self.timed

    @property
    def result(self) -> Path:
        """Where rank 0 writes its ``Speed`` or the parameters."""
        return Path(self.folder, "speed.json" if self.timed else "parameters.safetensors")

    @property
    def microsteps(self) -> int:
        """Forward passes of the whole training."""
        return self.steps * self.workload.accumulation

    def write(self) -> Path:
        path = Path(self.folder, "job.json")
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def read(cls, path: Path) -> Job:
        return cls(**json.loads(path.read_text()))


def job_of_this_process() -> Job:
    """The job that the command line names; its threads are set."""
    torch.set_num_threads(1)
    return Job.read(Path(sys.argv[1]))


@contextmanager
def joined() -> Iterator[None]:
    """In a group of the ranks, where there are several; as a decorator it ends after the function's names.

    DDP's reducer must be gone before the group is: else gloo's threads can deadlock with it.
    """
    _, world_size = place()
    if world_size == 1:
        yield
        return
    dist.init_process_group("gloo")
    yield
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


def unreduced(model: nn.Module) -> AbstractContextManager[None]:
    """Inside, backward leaves the gradients of this rank, where the model is in DDP."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


def place() -> tuple[int, int]:
    """Rank and number of ranks, as torchrun tells them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
