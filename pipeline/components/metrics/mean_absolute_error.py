"""The mean distance of predictions from targets."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.api.metric import Metric
from pipeline.api.outcome import Outcome
from pipeline.components.metrics.seen import predictions_and_targets


class MeanAbsoluteError(Metric):
    """The mean of |prediction - target| over all numbers of all samples.

    Takes predictions and targets of one shape (N, ...). NaN where there are none.
    """

    total: Tensor
    counted: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), "sum")
        self.add_state("counted", torch.tensor(0), "sum")

    def update(self, outcome: Outcome) -> None:
        predictions, targets = predictions_and_targets(outcome, "mean_absolute_error")
        if predictions.shape != targets.shape:  # torch would broadcast (N, 1) with (N,) to (N, N)
            raise ValueError(
                f"mean_absolute_error expected predictions and targets of one shape, "
                f"got {tuple(predictions.shape)} and {tuple(targets.shape)}"
            )
        self.total += (predictions.double() - targets.double()).abs().sum()
        self.counted += targets.numel()

    def compute(self) -> Tensor:
        return self.total / self.counted
