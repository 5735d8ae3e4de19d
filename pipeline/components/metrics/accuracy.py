"""The share of right answers."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from pipeline.api.metric import Metric
from pipeline.api.outcome import Outcome
from pipeline.components.metrics.seen import predictions_and_targets


class Accuracy(Metric):
    """The share of targets that are among the k highest logits.

    Takes logits (N, C) with classes (N,), or (N, T, C) with (N, T) and so on; every target counts
    the same. NaN where there are no targets.

    Args:
        k: how many of the highest logits may hit.
        ignore_index: a label that is not counted; default: every label is.
    """

    correct: Tensor
    counted: Tensor

    def __init__(self, k: Annotated[int, Ge(1)] = 1, ignore_index: int | None = None) -> None:
        super().__init__()
        self.k = k
        self.ignore_index = ignore_index
        self.add_state("correct", torch.tensor(0), "sum")
        self.add_state("counted", torch.tensor(0), "sum")

    def update(self, outcome: Outcome) -> None:
        logits, targets = predictions_and_targets(outcome, "accuracy")
        if logits.shape[:-1] != targets.shape or self.k > logits.shape[-1]:
            raise ValueError(
                f"accuracy with k = {self.k} expected logits (N, ..., C) with C >= k and targets (N, ...), "
                f"got {tuple(logits.shape)} and {tuple(targets.shape)}"
            )
        if self.k == 1:
            hits = logits.argmax(-1) == targets
        else:
            hits = (logits.topk(self.k, dim=-1).indices == targets.unsqueeze(-1)).any(-1)
        if self.ignore_index is None:
            self.correct += hits.sum()
            self.counted += targets.numel()
        else:
            counted = targets != self.ignore_index
            self.correct += (hits & counted).sum()
            self.counted += counted.sum()

    def compute(self) -> Tensor:
        return self.correct.double() / self.counted.double()
