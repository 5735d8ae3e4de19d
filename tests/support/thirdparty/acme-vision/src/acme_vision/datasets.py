"""Images with one bright row, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Stripes(Dataset[tuple[Tensor, int]]):
    """Images (height, height) with one bright row, whose number is the label; easy to learn."""

    def __init__(self, length: int, height: int) -> None:
        self.length = length
        self.height = height

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        label = index % self.height
        image = torch.rand(self.height, self.height) * 0.1
        image[label] += 1
        return image, label
