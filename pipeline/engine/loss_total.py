"""The sum of losses and that of their weights, kept on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.api.metric import sum_dtype


class LossTotal:
    """Both sums since the last reset; taking in a batch reads nothing from the device."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(2, dtype=sum_dtype(device), device=device)
        self._loss = self._sums[0]  # views, made once and not for every batch
        self._weight = self._sums[1]
        self._counted: float = 0  # weights that are plain numbers add up here, without touching the device

    def add(self, loss: Tensor, weight: Tensor | float) -> None:
        """Take in a loss sum (), without its graph, and its weight."""
        self._loss.add_(loss)
        if isinstance(weight, Tensor):
            self._weight.add_(weight)
        else:
            self._counted += weight

    @property
    def finite(self) -> Tensor:
        """Whether the loss sum so far is neither NaN nor infinite, a bool () on the device."""
        return torch.isfinite(self._loss)

    def sums(self) -> Tensor:
        """The loss sum and its weight, (2,); a copy."""
        sums = self._sums.clone()
        sums[1] += self._counted
        return sums

    def load(self, sums: Tensor) -> None:
        """Go on from sums (2,)."""
        self._sums.copy_(sums)
        self._counted = 0

    def reset(self) -> None:
        self._sums.zero_()
        self._counted = 0
