"""What the workloads train on: made from a seed, in memory, the same on every rank and side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import Dataset, TensorDataset


@dataclass(frozen=True)
class Numbers:
    """Rows of floats (N, features), and a number (N, 1) to fit with squared error."""

    rows: int
    features: int
    objective = "mse"

    def make(self) -> TensorDataset:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.rows, self.features, generator=generator)
        return TensorDataset(inputs, torch.randn(self.rows, 1, generator=generator))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return mse_loss(outputs, targets)


@dataclass(frozen=True)
class Classes:
    """Rows of floats (N, *shape), and one of ten classes (N,) to tell apart with cross entropy."""

    rows: int
    shape: tuple[int, ...]
    objective = "cross_entropy"

    def make(self) -> TensorDataset:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.rows, *self.shape, generator=generator)
        return TensorDataset(inputs, torch.randint(10, (self.rows,), generator=generator))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets)


@dataclass(frozen=True)
class Characters:
    """Windows of a text: tokens (N, context) and the tokens that come next (N, context)."""

    rows: int
    context: int
    vocabulary: int
    objective = "language_modelling"

    def make(self) -> TensorDataset:
        generator = torch.Generator().manual_seed(0)
        text = torch.randint(self.vocabulary, (self.rows * self.context + 1,), generator=generator)
        return TensorDataset(text[:-1].view(self.rows, -1), text[1:].view(self.rows, -1))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs.flatten(0, -2), targets.flatten())


@dataclass(frozen=True)
class PythonSamples:
    """Samples that Python makes one by one: features (F,) of a line of text, and one of ten classes."""

    rows: int
    features: int
    objective = "cross_entropy"

    def make(self) -> Dataset[tuple[Tensor, int]]:
        return _Lines(self)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets)


class _Lines(Dataset[tuple[Tensor, int]]):
    """Counts the words of a line by their hash: Python's usual work on a sample, without randomness."""

    def __init__(self, size: PythonSamples) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size.rows

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        counts = [0.0] * self._size.features
        for place in range(40):
            word = f"{index}-{place * index % 97}"
            counts[sum(word.encode()) * 31 % len(counts)] += 1.0
        return torch.tensor(counts), index % 10


Data = Numbers | Classes | Characters | PythonSamples
