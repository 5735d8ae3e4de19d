"""The clock that both sides carry: it counts optimizer steps and notes two moments."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

WINDOW = 50
"""Steps."""


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

    A window of 50 steps, which is as often as either side writes its loss, holds all that recurs; the speed
    is that of the fastest tenth of the windows: those that no other process on the machine disturbed.
    Hung into the optimizer itself, so that either side pays the same for it.
    """

    def __init__(self, optimizer: Optimizer, warm_steps: int) -> None:
        self._step = -warm_steps
        self._wall: list[float] = []
        self._cpu: list[float] = []
        optimizer.register_step_post_hook(self._tick)

    def _tick(self, *_: Any) -> None:
        self._step += 1
        if self._step >= 0 and self._step % WINDOW == 0:
            self._wall.append(time.perf_counter())
            self._cpu.append(time.process_time())

    def write(self, path: Path) -> None:
        """Write the ``Speed`` as JSON."""
        speed = Speed(WINDOW / _window(self._wall), 1e6 * _window(self._cpu) / WINDOW)
        path.write_text(json.dumps(asdict(speed)))


def _window(moments: list[float]) -> float:
    """The length of a window, in seconds, that only a tenth of them undercut."""
    lengths = sorted(end - begin for begin, end in pairwise(moments))
    return lengths[len(lengths) // 10]
