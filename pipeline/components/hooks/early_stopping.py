"""Ending the run when a metric no longer gets better."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge

from pipeline.api.hook import Hook
from pipeline.api.metric_name import MetricName
from pipeline.api.run import Run
from pipeline.errors import RunError


class EarlyStopping(Hook):
    """Stops the run after so many evaluations in a row without an improvement.

    NaN is never an improvement.

    Args:
        monitor: the metric, as eval/loss.
        mode: whether lower or higher is better.
        patience: evaluations without improvement that end the run.
        min_delta: by how much a value must be better to count.
    """

    def __init__(
        self,
        monitor: MetricName,
        mode: Literal["min", "max"] = "min",
        patience: Annotated[int, Ge(1)] = 3,
        min_delta: Annotated[float, Ge(0)] = 0.0,
    ) -> None:
        self.monitor = monitor
        self.mode = mode
        self.patience = patience
        self.min_delta = min_delta
        self._best: float | None = None
        self._waited = 0
        self._seen_step = -1

    def on_evaluate_end(self, run: Run) -> None:
        if self.monitor not in run.metrics:
            raise RunError(
                f"early_stopping: monitor = {self.monitor!r} is no metric of this run; "
                f"expected one of {', '.join(sorted(run.metrics))}"
            )
        if run.metrics_steps[self.monitor] == self._seen_step:
            return  # measured at log points, as train/loss, and not since the last evaluation
        self._seen_step = run.metrics_steps[self.monitor]
        value = run.metrics[self.monitor]
        if self._improves(value):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= self.patience:
            best = "none" if self._best is None else f"{self._best:.6g}"
            run.stop(f"early stopping: {self.monitor} has not improved {self._waited} times, best {best}")

    def _improves(self, value: float) -> bool:
        """Whether a value counts as better; every comparison with NaN is false."""
        if self._best is None:
            return value == value  # noqa: PLR0124 -- false for NaN alone
        gain = self._best - value if self.mode == "min" else value - self._best
        return gain > self.min_delta

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "waited": self._waited, "seen_step": self._seen_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best = state["best"]
        self._waited = state["waited"]
        self._seen_step = state["seen_step"]
