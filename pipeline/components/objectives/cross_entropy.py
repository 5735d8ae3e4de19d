"""Cross entropy of logits with classes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor, nn

from pipeline.api.outcome import Outcome
from pipeline.components.objectives.pair import inputs_and_targets

_NO_CLASS = torch.iinfo(torch.int64).min  # torch ignores -100 unless told otherwise; nothing has this label


class CrossEntropy:
    """Cross entropy, summed over all counted targets.

    Takes logits (N, C) with classes (N,), one each; or (N, T, C) with (N, T), and so on for more
    dimensions, where every target counts as much as any other. Classes are int64.

    Args:
        label_smoothing: share of the target that is spread evenly over all classes.
        ignore_index: a label that is not counted; default: every label is.
        class_dim: where the logits have their classes: last, or behind N as torch has them.
        inputs: the key of the inputs where a batch is a mapping.
        targets: the key of the classes where a batch is a mapping.
    """

    def __init__(
        self,
        label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0,
        ignore_index: int | None = None,
        class_dim: Literal[-1, 1] = -1,
        inputs: str = "inputs",
        targets: str = "targets",
    ) -> None:
        self.label_smoothing = label_smoothing
        self.ignore_index = ignore_index
        self.class_dim = class_dim
        self.inputs = inputs
        self.targets = targets

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        inputs, targets = inputs_and_targets(batch, self.inputs, self.targets)
        logits = model(inputs)
        if logits.dim() > 2:
            logits = logits.movedim(self.class_dim, -1)
        if logits.shape[:-1] != targets.shape:
            raise ValueError(
                f"logits {tuple(logits.shape)}, classes last, do not fit targets {tuple(targets.shape)}; "
                "expected a target for each row of logits"
            )
        # Flat, because torch's loss over (N, C, ...) is not deterministic on CUDA.
        loss = F.cross_entropy(
            logits.flatten(0, -2) if logits.dim() > 2 else logits,
            targets.flatten() if targets.dim() > 1 else targets,
            ignore_index=_NO_CLASS if self.ignore_index is None else self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction="sum",
        )
        return Outcome(loss, self._weight(targets), predictions=logits, targets=targets)

    def _weight(self, targets: Tensor) -> Tensor | float | None:
        if self.ignore_index is not None:
            return (targets != self.ignore_index).sum()  # stays on the device: nothing waits for it
        return None if targets.dim() == 1 else targets.numel()
