"""The base class of metrics: declared states that the engine reduces exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pipeline.api.outcome import Outcome
from pipeline.errors import ComponentError

Reduction = Literal["sum", "max", "min", "cat"]


def sum_dtype(device: torch.device) -> torch.dtype:
    """The type to add fractions in: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(frozen=True)
class State:
    """One state of a metric, as the engine packs it."""

    value: Tensor
    reduce: Reduction | None
    """How ranks are joined; None: undeclared, which more than one rank refuses."""


class Metric:
    """A number about an evaluation, computed from states that add up over batches and ranks.

    Declare the states in ``__init__`` with ``add_state``, accumulate in ``update``, and give the
    value in ``compute``: it sees the states of all ranks joined, so it may be any function of them.

        class Accuracy(Metric):
            def __init__(self) -> None:
                super().__init__()
                self.correct = self.add_state("correct", torch.tensor(0), "sum")
                self.total = self.add_state("total", torch.tensor(0), "sum")
    """

    def __init__(self) -> None:
        self._defaults: dict[str, tuple[Tensor, Reduction]] = {}

    def add_state(self, name: str, default: Tensor, reduce: Reduction) -> Tensor:
        """Declare a state and return its first value; keep it as the attribute ``name``.

        Args:
            name: the attribute that ``update`` changes, by assignment or in place.
            default: what it is reset to: int64 for counts and float64 for sums add exactly;
                for "cat" an empty tensor (0, ...) whose first dimension grows.
            reduce: how the states of the ranks are joined.
        """
        self._defaults[name] = (default, reduce)
        value = default.clone()
        setattr(self, name, value)
        return value

    def update(self, outcome: Outcome) -> None:
        """Take in one batch; called under ``torch.no_grad`` on the model's device."""
        raise NotImplementedError(f"{type(self).__name__} does not define update(outcome)")

    def compute(self) -> float | Tensor:
        """The value, a scalar, from the states as they are now (all ranks joined)."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute()")

    def states(self) -> dict[str, State]:
        """The states as they are now, by name.

        Raises:
            ComponentError: if one has another type or shape than was declared. A rank without samples
                still has the declared ones, so the ranks could not be joined.
        """
        return {
            name: State(self._as_declared(name, default, reduce), reduce)
            for name, (default, reduce) in self._defaults.items()
        }

    def _as_declared(self, name: str, default: Tensor, reduce: Reduction) -> Tensor:
        value: Tensor = getattr(self, name)
        first = 1 if reduce == "cat" else 0  # the dimension that grows
        if value.dtype != default.dtype or value.shape[first:] != default.shape[first:]:
            raise ComponentError(
                f"the state {name!r} of {type(self).__name__} was declared as {default.dtype} "
                f"{tuple(default.shape)}, and update made it {value.dtype} {tuple(value.shape)}; "
                "declare it as what update makes of it"
            )
        return value

    def load_states(self, values: Mapping[str, Tensor]) -> None:
        """Replace the states, by name."""
        for name, value in values.items():
            setattr(self, name, value)

    def reset(self, device: torch.device) -> None:
        """Bring every state back to its default, on ``device``."""
        for name, (default, _) in self._defaults.items():
            setattr(self, name, default.to(device, copy=True))
