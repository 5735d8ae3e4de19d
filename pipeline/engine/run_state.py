"""What changes while a run goes on, beside the tensors: shared by loop, hooks and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from pipeline.engine.position import Position
from pipeline.engine.train_totals import TrainTotals


@dataclass
class Logged:
    """Values that hooks have logged since the last row."""

    averaged: dict[str, tuple[float | Tensor, int]] = field(default_factory=dict)
    """From hooks of all ranks: the sum and the count on this rank, to be joined with the others'."""
    recorded: dict[str, float | Tensor] = field(default_factory=dict)
    """From gated hooks: as they are."""
    by: dict[str, str] = field(default_factory=dict)
    """The key of the hook that has logged a name last."""

    def clear(self) -> None:
        self.averaged.clear()
        self.recorded.clear()


@dataclass(frozen=True)
class Stop:
    """A hook's wish to end the run early."""

    reason: str
    hook: str
    """The key of its table, as ``hooks.early_stopping``."""


@dataclass
class RunState:
    """The position, the sums since the last row, and the last value of every metric."""

    position: Position
    totals: TrainTotals
    logged: Logged = field(default_factory=Logged)
    metrics: dict[str, float] = field(default_factory=dict)
    metrics_steps: dict[str, int] = field(default_factory=dict)
    """The step at which each was measured."""
    unfinished: bool = False
    """The last step's evaluation was left for a signal: evaluation and hooks of this step are to come."""
    stop: Stop | None = None
    """What ended the run early."""

    def publish(self, values: dict[str, float]) -> None:
        """Take new values of metrics, measured now."""
        self.metrics.update(values)
        self.metrics_steps.update(dict.fromkeys(values, self.position.step))

    @property
    def is_logged(self) -> bool:
        """Whether the last row covers every step done."""
        return self.metrics_steps.get("train/loss", 0) == self.position.step
