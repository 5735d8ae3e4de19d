"""The exponential of the mean loss."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.api.metric import Metric
from pipeline.api.outcome import Outcome
from pipeline.components.metrics.seen import predictions_and_targets


class Perplexity(Metric):
    """exp(sum of losses / sum of weights), where the objective's loss is in nats, as cross entropy is.

    Where the objective gives no weight, every sample counts one: the first dimension of its targets.
    NaN where nothing was counted.
    """

    total: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), "sum")
        self.add_state("weight", torch.tensor(0.0, dtype=torch.float64), "sum")

    def update(self, outcome: Outcome) -> None:
        weight = outcome.weight
        if weight is None:
            _, targets = predictions_and_targets(outcome, "perplexity")
            weight = len(targets)
        self.total += outcome.loss
        self.weight += weight

    def compute(self) -> Tensor:
        return torch.exp(self.total / self.weight)
