"""How fast the run is."""

from __future__ import annotations

import time
from typing import ClassVar

from pipeline.api.hook import Hook
from pipeline.api.run import Run

_NAME = "throughput/samples_per_second"


class Throughput(Hook):
    """Logs samples per second, over all ranks, as throughput/samples_per_second.

    Measured from one log point to the next, where the device has finished its work, and all that
    happens in between counts: reading, evaluation, checkpoints. A row shows the measurement that
    ended with the row before it.
    """

    measured: ClassVar[frozenset[str]] = frozenset({_NAME})

    def on_run_start(self, run: Run) -> None:
        self._restart(run)

    def on_step_end(self, run: Run) -> None:
        if run.metrics_steps.get("train/loss") != run.step:
            return  # no log point
        seconds = time.perf_counter() - self._since
        if seconds > 0:
            run.log(_NAME, (run.samples_seen - self._samples) / seconds)
        self._restart(run)

    def _restart(self, run: Run) -> None:
        self._since = time.perf_counter()
        self._samples = run.samples_seen
