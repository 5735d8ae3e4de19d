"""Components of which rank 1 gets others than rank 0, by what the environment says; a local file."""

from __future__ import annotations

import os

import torch
from torch import nn

from pipeline import register

UNLIKE = os.environ.get("UNLIKE", "") if os.environ.get("RANK") == "1" else ""


@register("model", "unlike")
class Unlike(nn.Module):
    """A layer, another one on rank 1."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3, bias=UNLIKE != "name")
        if UNLIKE == "type":
            self.layer.double()
        if UNLIKE == "frozen":
            self.layer.bias.requires_grad_(False)
        if UNLIKE == "buffer":
            self.register_buffer("mean", torch.zeros(2))

    def forward(self, inputs):
        return self.layer(inputs.to(self.layer.weight.dtype))


@register("dataset", "unlike")
class UnlikePoints:
    """Points, some fewer on rank 1."""

    def __init__(self, name: str) -> None:
        self.length = 30 if f"{name} length" == UNLIKE else 40

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((8,), float(index)).sin(), index % 3
