"""Any metric of torchmetrics, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from pipeline.api.metric import Metric, Reduction, State
from pipeline.api.outcome import Outcome
from pipeline.components.metrics import listed_state
from pipeline.errors import ComponentError

if TYPE_CHECKING:
    import torchmetrics

_DOMAINS = ("", ".classification", ".regression", ".aggregation", ".text", ".image", ".audio", ".nominal")


class TorchMetrics(Metric):
    """A metric of torchmetrics whose states the engine joins; torchmetrics itself never communicates.

    States that torchmetrics reduces by sum, max, min or cat are joined exactly; a metric with any other
    state works with one process only, since the engine refuses that state by its name.

    Args:
        metric: the class's name, as MulticlassF1Score.
        arguments: what the class is called with, as { num_classes = 10 }; its value must be a scalar.
        feed: what its update is given, in this order.

    Raises:
        ComponentError: if torchmetrics is not installed, has no such metric, or it holds other metrics.
    """

    def __init__(
        self,
        metric: str,
        arguments: dict[str, Any] | None = None,
        feed: list[Literal["predictions", "targets", "loss"]] | None = None,
    ) -> None:
        super().__init__()
        self.name = metric
        self.feed = ["predictions", "targets"] if feed is None else list(feed)
        # Of torchmetrics' two ways to communicate, the first is its default.
        self._metric = _find(metric)(**(arguments or {}), sync_on_compute=False, dist_sync_on_step=False)
        if any(name for name, module in self._metric.named_modules() if hasattr(module, "_reductions")):
            raise ComponentError(
                f"{metric} holds other metrics, whose states it does not declare; name one of those"
            )

    def reset(self, device: torch.device) -> None:
        self._metric.to(device)
        self._metric.reset()

    def update(self, outcome: Outcome) -> None:
        self._metric.update(*(getattr(outcome, part) for part in self.feed))

    def states(self) -> dict[str, State]:
        states: dict[str, State] = {}
        for name, default in self._metric._defaults.items():
            value, reduce = getattr(self._metric, name), self._reduction(name)
            if isinstance(default, Tensor):
                states[name] = State(value, reduce)
            elif reduce == "cat":
                states |= listed_state.pack(name, value, self._metric.device)
            else:
                states[name] = State(torch.empty(0), None)  # refused by its name where it would be joined
        return states

    def load_states(self, values: Mapping[str, Tensor]) -> None:
        device = next(iter(values.values())).device if values else torch.device("cpu")
        self._metric.to(device)  # whatever else it computes with, as thresholds
        for name, default in self._metric._defaults.items():
            if isinstance(default, Tensor):
                setattr(self._metric, name, values[name])
            elif self._reduction(name) == "cat":
                setattr(self._metric, name, listed_state.unpack(name, values))
        self._metric._computed = None
        self._metric._update_count = max(1, self._metric._update_count)  # another rank's update counts

    def compute(self) -> Tensor:
        value = self._metric.compute()
        if not isinstance(value, Tensor) or value.numel() != 1:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise ComponentError(
                f"{self.name} computed {got}; expected a scalar: set its arguments so, as average = 'macro'"
            )
        return value.reshape(())

    def _reduction(self, name: str) -> Reduction | None:
        """How torchmetrics joins a state; None where that is none of ours."""
        from torchmetrics import utilities

        known: dict[Any, Reduction] = {
            utilities.dim_zero_sum: "sum",
            utilities.dim_zero_max: "max",
            utilities.dim_zero_min: "min",
            utilities.dim_zero_cat: "cat",
        }
        return known.get(self._metric._reductions[name])


def _find(name: str) -> type[torchmetrics.Metric]:
    """The class of that name, in torchmetrics or one of its domains."""
    from importlib import import_module

    try:
        modules = [import_module(f"torchmetrics{domain}") for domain in _DOMAINS]
    except ImportError as error:
        raise ComponentError(
            "metric torchmetrics needs the package torchmetrics: pip install 'pipeline-ddp[torchmetrics]'"
        ) from error
    base = modules[0].Metric
    found: dict[str, type[torchmetrics.Metric]] = {
        key: value
        for module in modules
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    if name not in found:
        nearest = get_close_matches(name, found, 1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ComponentError(f"torchmetrics has no metric {name!r}{hint}")
    return found[name]
