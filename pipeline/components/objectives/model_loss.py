"""For models that return their own loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from pipeline.api.outcome import Outcome


class ModelLoss:
    """The loss that the model itself returns, every sample counted once.

    A batch that is a mapping is given as keywords, a tuple or list as positional arguments, and
    anything else as the one argument. The model returns a scalar loss, or a mapping that has it
    under ``loss``; where the mapping has ``logits`` too, metrics see them, with the batch's ``labels``.

    Args:
        reduction: whether the model's loss is the mean over the batch's samples, or their sum.
            A mean is multiplied by the batch's size, which costs its last bit.
    """

    def __init__(self, reduction: Literal["mean", "sum"] = "mean") -> None:
        self.reduction = reduction

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        output = _call(model, batch)
        loss = output.get("loss") if isinstance(output, Mapping) else output
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            got = (
                f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            )
            raise ValueError(f"expected the model to return a scalar loss, or a mapping with one; got {got}")
        if self.reduction == "mean":
            loss = loss * _samples(batch)
        predictions = output.get("logits") if isinstance(output, Mapping) else None
        targets = batch.get("labels") if isinstance(batch, Mapping) else None
        return Outcome(loss, predictions=predictions, targets=targets)


def _call(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    return model(batch)


def _samples(batch: Any) -> int:
    """The batch's size: the first dimension of its first tensor."""
    if isinstance(batch, Mapping):
        parts = list(batch.values())
    else:
        parts = list(batch) if isinstance(batch, tuple | list) else [batch]
    for part in parts:
        if isinstance(part, Tensor) and part.dim():
            return part.shape[0]
    raise ValueError(
        f"found no tensor (N, ...) in a batch of type {type(batch).__name__} to count its samples by"
    )
