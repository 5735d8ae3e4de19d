"""What an objective returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Outcome:
    """The loss of one microbatch as a sum, and by what it is to be divided in the end.

    The engine adds the losses of all microbatches and ranks and divides once, by the global
    weight; so an objective never averages.
    """

    loss: Tensor
    """Scalar (), differentiable in training: the sum over the samples (or tokens)."""
    weight: Tensor | float | None = None
    """How many samples or tokens the sum counts, a scalar; None: one for each sample."""
    predictions: Any = None
    """What metrics see, usually logits (N, ...) on the model's device; None: nothing to see."""
    targets: Any = None
    """What metrics compare it with, usually (N, ...)."""
