"""A metric, whose states the engine reduces."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline import Metric, Outcome


class Confidence(Metric):
    """The mean probability of the likeliest class."""

    total: Tensor
    samples: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), "sum")
        self.add_state("samples", torch.tensor(0), "sum")

    def update(self, outcome: Outcome) -> None:
        likeliest = outcome.predictions.softmax(dim=1).amax(dim=1)
        self.total += likeliest.double().sum()
        self.samples += len(likeliest)

    def compute(self) -> Tensor:
        return self.total / self.samples
