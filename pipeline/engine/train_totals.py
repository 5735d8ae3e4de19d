"""Sums since the last log point, kept on the device and read only when a row is due."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.api.metric import State, sum_dtype
from pipeline.engine.loss_total import LossTotal


class TrainTotals:
    """The loss sum, its weight and the gradient norms since the last row of metrics.jsonl."""

    def __init__(self, device: torch.device) -> None:
        self._loss = LossTotal(device)
        self._norms = torch.zeros(2, dtype=sum_dtype(device), device=device)  # their sum, steps that had one

    def add(self, loss: Tensor, weight: Tensor | int) -> None:
        """Take in a microbatch: its loss sum () and its weight."""
        self._loss.add(loss.detach(), weight)

    def add_norm(self, norm: Tensor) -> None:
        """Take in the gradient norm () of a step, before clipping; equal on all ranks."""
        self._norms[0].add_(norm)
        self._norms[1].add_(1)

    @property
    def finite(self) -> Tensor:
        """Whether the loss sum so far is neither NaN nor infinite, a bool () on the device."""
        return self._loss.finite

    def state(self) -> State:
        """Loss, weight, norms and steps with norms as one state of the fused collective, (4,)."""
        return State(torch.cat([self._loss.sums(), self._norms]), "sum")

    def reset(self) -> None:
        self._loss.reset()
        self._norms.zero_()

    def state_dict(self) -> Tensor:
        """This rank's sums on the CPU, (4,)."""
        return self.state().value.cpu()

    def load_state_dict(self, sums: Tensor) -> None:
        self._loss.load(sums[:2])
        self._norms.copy_(sums[2:])

    @staticmethod
    def values(reduced: Tensor) -> dict[str, float]:
        """The means that a row shows, from sums (4,) over all ranks."""
        loss, weight, norms, steps = reduced.tolist()
        values = {"train/loss": loss / weight if weight else float("nan")}
        if steps:
            values["grad_norm"] = norms / steps
        return values
