"""The clock that both sides carry: it counts optimizer steps and notes two moments."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch.optim import Optimizer


@dataclass(frozen=True)
class Speed:
    """What one measurement gave, on rank 0."""

    steps_per_second: float
    cpu_microseconds: float
    """Processor time of a step, of all threads: what remains to compare on a machine that others use too."""

    @classmethod
    def read(cls, path: Path) -> Speed:
        return cls(**json.loads(path.read_text()))


class Meter:
    """Times the steps after the first ``warm_steps`` of an optimizer, without start-up.

    Hung into the optimizer itself, so that either side pays the same for it.
    """

    def __init__(self, optimizer: Optimizer, warm_steps: int, steps: int) -> None:
        self._step = 0
        self._first = warm_steps
        self._last = warm_steps + steps
        self._moments: list[tuple[float, float]] = []
        optimizer.register_step_post_hook(self._tick)

    def _tick(self, *_: Any) -> None:
        self._step += 1
        if self._step in (self._first, self._last):
            self._moments.append((time.perf_counter(), time.process_time()))

    def write(self, path: Path) -> None:
        """Write the ``Speed`` as JSON."""
        (wall_begin, cpu_begin), (wall_end, cpu_end) = self._moments
        steps = self._last - self._first
        speed = Speed(steps / (wall_end - wall_begin), 1e6 * (cpu_end - cpu_begin) / steps)
        path.write_text(json.dumps(asdict(speed)))
