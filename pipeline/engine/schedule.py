"""The LR scheduler, stepped by optimizer steps, epochs, or a metric, whatever the world size."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.optim import Optimizer

from pipeline.engine.experiment import Experiment
from pipeline.errors import ComponentError

_PROGRESS = frozenset(
    {"last_epoch", "_step_count", "_last_lr", "T_cur", "T_i", "best", "num_bad_epochs", "cooldown_counter"}
)
"""The part of a torch scheduler's state that is not its arguments."""


@dataclass
class Schedule:
    """When and with what the scheduler is stepped; without a scheduler, never."""

    scheduler: Any
    interval: str
    monitor: str | None
    lengths: Mapping[str, int] = field(default_factory=dict)
    """What the scheduler was told of the length of the run."""

    @classmethod
    def build(
        cls,
        build: Callable[..., Any],
        experiment: Experiment,
        optimizer: Optimizer,
        *,
        total_steps: int | None,
        steps_per_epoch: int | None,
    ) -> Schedule:
        """Build the scheduler; it is told the length of the run where its signature asks.

        Raises:
            ComponentError: if it is driven by a metric and ``monitor`` names none, or the reverse; or if
                it asks for a length that only reading the data would tell.
        """
        part = experiment.scheduler
        if part is None:
            return cls(None, experiment.scheduler_interval, None)
        lengths = {"total_steps": total_steps, "steps_per_epoch": steps_per_epoch}
        known = {name: value for name, value in lengths.items() if value is not None}
        if total_steps is None and not part.takes.isdisjoint(lengths):
            raise ComponentError(
                f"{part} asks for the length of the run, but nobody knows how many steps an epoch of an "
                "iterable dataset has; set train.steps instead of train.epochs"
            )
        scheduler = build(part, optimizer, **known)
        by_metric = _wants_metric(scheduler)
        monitor = experiment.scheduler_monitor
        if by_metric and monitor is None:
            raise ComponentError(f"{part} is driven by a metric; set scheduler.monitor, as 'eval/loss'")
        if monitor is not None and not by_metric:
            raise ComponentError(f"{part} is not driven by a metric; remove scheduler.monitor")
        told = {name: value for name, value in known.items() if name in part.takes}
        return cls(scheduler, experiment.scheduler_interval, monitor, told)

    def after_step(self) -> None:
        """An optimizer step was taken (not: skipped by the gradient scaler)."""
        if self.scheduler is not None and self.monitor is None and self.interval == "step":
            self.scheduler.step()

    def after_epoch(self) -> None:
        if self.scheduler is not None and self.monitor is None and self.interval == "epoch":
            self.scheduler.step()

    def after_evaluation(self, metrics: Mapping[str, float]) -> None:
        if self.scheduler is not None and self.monitor is not None:
            self.scheduler.step(metrics[self.monitor])

    def state_dict(self) -> dict[str, Any]:
        return self.scheduler.state_dict() if self.scheduler is not None else {}

    def load_state_dict(
        self,
        state: dict[str, Any],
        optimizer: Optimizer,
        accepted: Collection[str],
        lengths: Mapping[str, int],
    ) -> None:
        """Go on where ``state`` was taken, from the rates that the optimizer now starts from.

        Args:
            accepted: config keys whose new values count. Where they concern the scheduler, it keeps
                the curve that it was built with, and takes from the state only how far it has come.
            lengths: what the scheduler whose state it is was told; with others it does likewise.
        """
        if self.scheduler is None:
            return
        if lengths != self.lengths or any(key.startswith("scheduler.") for key in accepted):
            state = self.scheduler.state_dict() | {key: state[key] for key in _PROGRESS & state.keys()}
        self.scheduler.load_state_dict(state)
        if hasattr(self.scheduler, "base_lrs"):
            self.scheduler.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]


def _wants_metric(scheduler: Any) -> bool:
    """Whether ``step`` has a parameter without default, as ReduceLROnPlateau's ``metrics``."""
    parameters = inspect.signature(scheduler.step).parameters.values()
    return any(parameter.default is parameter.empty for parameter in parameters)
