"""Sums since the last log point, kept on the device and read only when a row is due."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.api.metric import State, sum_dtype


class TrainTotals:
    """The loss sum, its weight and the gradient norms since the last row of metrics.jsonl."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._sums = torch.zeros(
            4, dtype=sum_dtype(device), device=device
        )  # loss, weight, norms, steps with norms
        self._loss = self._sums[0]  # a view, made once and not in every step
        self._samples = 0  # weights that are plain counts add up here, without touching the device

    def add(self, loss: Tensor, weight: Tensor | int) -> None:
        """Take in a microbatch: its loss sum () and its weight."""
        self._loss.add_(loss.detach())
        if isinstance(weight, int):
            self._samples += weight
        else:
            self._sums[1].add_(weight)

    def add_norm(self, norm: Tensor) -> None:
        """Take in the gradient norm () of a step, before clipping; equal on all ranks."""
        self._sums[2].add_(norm)
        self._sums[3].add_(1)

    @property
    def finite(self) -> Tensor:
        """Whether the loss sum so far is neither NaN nor infinite, a bool () on the device."""
        return torch.isfinite(self._loss)

    def state(self) -> State:
        """The sums as one state of the fused collective, (4,)."""
        value = self._sums.clone()
        value[1] += self._samples
        return State(value, "sum")

    def reset(self) -> None:
        self._sums.zero_()
        self._samples = 0

    def state_dict(self) -> Tensor:
        """This rank's sums on the CPU, (4,)."""
        return self.state().value.cpu()

    def load_state_dict(self, sums: Tensor) -> None:
        self._sums.copy_(sums)
        self._samples = 0

    @staticmethod
    def values(reduced: Tensor) -> dict[str, float]:
        """The means that a row shows, from sums (4,) over all ranks."""
        loss, weight, norms, steps = reduced.tolist()
        values = {"train/loss": loss / weight if weight else float("nan")}
        if steps:
            values["grad_norm"] = norms / steps
        return values
