"""The learning rates, in the log."""

from __future__ import annotations

from torch import Tensor

from pipeline.api.hook import Hook
from pipeline.api.run import Run


class LRMonitor(Hook):
    """Logs the learning rate of every parameter group as lr/0, lr/1, ...

    A row of the log shows the rates with which its own step was made.
    """

    def on_run_start(self, run: Run) -> None:
        if run.step == 0:  # a checkpoint holds what was logged for the step after it
            self._log(run)

    def on_step_end(self, run: Run) -> None:
        if run.step != run.total_steps:  # a last row, written after this, still shows the last step's rates
            self._log(run)

    def _log(self, run: Run) -> None:
        """What the scheduler has set for the next step, whose row is the next that can be written."""
        for number, group in enumerate(run.optimizer.param_groups):
            rate: float | Tensor = group["lr"]
            run.log(f"lr/{number}", rate)
