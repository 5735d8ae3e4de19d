"""Mean squared error."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import nn

from pipeline.api.outcome import Outcome
from pipeline.components.objectives.pair import inputs_and_targets


class MSE:
    """Squared error: the mean over a sample's features, summed over the samples.

    Takes predictions and targets of one shape (N, ...).

    Args:
        inputs: the key of the inputs where a batch is a mapping.
        targets: the key of the targets where a batch is a mapping.
    """

    def __init__(self, inputs: str = "inputs", targets: str = "targets") -> None:
        self.inputs = inputs
        self.targets = targets

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        inputs, targets = inputs_and_targets(batch, self.inputs, self.targets)
        predictions = model(inputs)
        if predictions.shape != targets.shape:  # torch would broadcast (N, 1) with (N,) to (N, N)
            raise ValueError(
                f"predictions and targets must have one shape, "
                f"got {tuple(predictions.shape)} and {tuple(targets.shape)}"
            )
        features = math.prod(targets.shape[1:])
        loss = F.mse_loss(predictions, targets, reduction="sum")
        return Outcome(loss / features if features > 1 else loss, predictions=predictions, targets=targets)
