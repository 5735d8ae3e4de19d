"""A trace of some training steps."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from pipeline.api.hook import Hook
from pipeline.api.run import Run

if TYPE_CHECKING:
    from torch.profiler import profile

_log = logging.getLogger(__name__)


class Profiler(Hook):
    """Records a few steps with torch.profiler, once a run, as a Chrome trace.

    The trace is trace-rank-R.json in the run folder, for chrome://tracing or ui.perfetto.dev.

    Args:
        wait: steps before anything is done.
        warmup: steps that are traced and thrown away, as the first ones are slow.
        active: steps that are recorded.
        record_shapes: record the shapes of operators' inputs.
        with_stack: record the Python lines that called them.
    """

    def __init__(
        self,
        wait: Annotated[int, Ge(0)] = 10,
        warmup: Annotated[int, Ge(0)] = 2,
        active: Annotated[int, Ge(1)] = 5,
        record_shapes: bool = False,
        with_stack: bool = False,
    ) -> None:
        self.wait = wait
        self.warmup = warmup
        self.active = active
        self.record_shapes = record_shapes
        self.with_stack = with_stack
        self._profile: profile | None = None

    def on_run_start(self, run: Run) -> None:
        import torch.profiler

        steps = self.wait + self.warmup + self.active
        if run.total_steps is not None and run.total_steps - run.step < steps:
            _log.warning(
                "profiler: wait + warmup + active are %d steps, but only %d are left: a partial trace",
                steps,
                run.total_steps - run.step,
            )
        path = run.folder / f"trace-rank-{run.world.rank}.json"
        self._profile = torch.profiler.profile(
            schedule=torch.profiler.schedule(
                wait=self.wait, warmup=self.warmup, active=self.active, repeat=1
            ),
            on_trace_ready=lambda profile: profile.export_chrome_trace(str(path)),
            record_shapes=self.record_shapes,
            with_stack=self.with_stack,
        )
        self._profile.start()

    def on_step_end(self, run: Run) -> None:
        if self._profile is not None:
            self._profile.step()

    def on_run_end(self, run: Run) -> None:
        self._stop()

    def on_exception(self, run: Run, error: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._profile is not None:
            self._profile.stop()
            self._profile = None
