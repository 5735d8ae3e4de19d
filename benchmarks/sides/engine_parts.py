"""The local components that the engine's config names: a workload's data, and the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from benchmarks.job import Job
from benchmarks.meter import Meter
from benchmarks.workloads import WORKLOADS
from pipeline import Hook, Run, register


@register("dataset", "benchmark")
def benchmark(workload: str) -> Dataset[Any]:
    """The workload's data."""
    return WORKLOADS[workload].data.make()


@register("hook", "meter")
class MeterHook(Hook):
    """Hangs the clock into the optimizer, and writes what it has seen."""

    ranks = "all"

    def __init__(self, job: Path) -> None:
        self._job = Job.read(job)

    def on_run_start(self, run: Run) -> None:
        self._meter = Meter(run.optimizer, self._job)

    def on_run_end(self, run: Run) -> None:
        if run.world.rank == 0:
            self._meter.write()
