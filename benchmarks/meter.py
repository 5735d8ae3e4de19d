"""The clock that every side carries: it counts optimizer steps and notes the time of some."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch.optim import Optimizer

from benchmarks.job import Job


@dataclass(frozen=True)
class Speed:
    """What one measurement gave, on rank 0."""

    steps: int
    """Optimizer steps that were made."""
    steps_per_second: float
    """Of the fastest tenth of the windows, which no other process on the machine has disturbed."""
    overall: float
    """Steps per second from the first reading to the last: with starts of epochs and disturbances."""
    cpu_microseconds: float
    """Processor time of a step, of all threads: what remains to compare on a machine that others use too."""
    first_step: float
    """Seconds from the start of the first process to the end of the first optimizer step."""

    @classmethod
    def read(cls, path: Path) -> Speed:
        return cls(**json.loads(path.read_text()))


class Meter:
    """Times the steps of an optimizer after the first few, without start-up.

    Hung into the optimizer itself, so that every side pays the same for it.
    """

    def __init__(self, optimizer: Optimizer, job: Job) -> None:
        self._job = job
        self._first_step = 0.0
        self._optimizer = optimizer
        self._steps = 0
        self._wall: list[float] = []
        self._cpu: list[float] = []
        optimizer.register_step_post_hook(self._tick)

    def _tick(self, *_: Any) -> None:
        if self._steps == 0:
            self._first_step = time.time() - self._job.began
        self._steps += 1
        if self._steps >= self._job.workload.warm_steps and self._steps % self._job.workload.window == 0:
            self._wall.append(time.perf_counter())
            self._cpu.append(time.process_time())

    def write(self) -> None:
        """Write what the job is for."""
        if self._job.timed:
            self._job.result.write_text(json.dumps(asdict(self._speed())))
            return
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        named = {f"{place:03}": parameter.detach() for place, parameter in enumerate(parameters)}
        save_file(named, self._job.result)

    def _speed(self) -> Speed:
        window = self._job.workload.window
        return Speed(
            self._steps,
            steps_per_second=window / undisturbed(self._wall),
            overall=window * (len(self._wall) - 1) / (self._wall[-1] - self._wall[0]),
            cpu_microseconds=1e6 * undisturbed(self._cpu) / window,
            first_step=self._first_step,
        )


def undisturbed(moments: list[float]) -> float:
    """The length of a window, in seconds, that only a tenth of them undercut."""
    lengths = sorted(end - begin for begin, end in pairwise(moments))
    return lengths[len(lengths) // 10]
