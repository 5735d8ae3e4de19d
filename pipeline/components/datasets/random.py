"""Synthetic samples of any size, computed from their index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor
from torch.utils.data import Dataset

from pipeline.api.seeds import derive_seed


class Random(Dataset[tuple[Tensor, Tensor]]):
    """Noise, for smoke tests and speed measurements: (inputs, targets) pairs, nothing to learn in them.

    Inputs are standard normal, float32. Targets are classes (int64), or standard normal numbers of
    a shape. A sample depends on seed and index alone, and is made when it is asked for, so any
    length costs the same memory.

    Args:
        length: number of samples.
        input_shape: shape of one input; an empty list gives single numbers.
        classes: draw each target from so many classes.
        target_shape: or make each target of this shape; exactly one of the two.
        seed: the root of all samples.

    Raises:
        ValueError: if both or neither of classes and target_shape are given.
    """

    def __init__(
        self,
        length: Annotated[int, Ge(0)],
        input_shape: list[Annotated[int, Ge(1)]],
        classes: Annotated[int, Ge(1)] | None = None,
        target_shape: list[Annotated[int, Ge(1)]] | None = None,
        seed: int = 0,
    ) -> None:
        if (classes is None) == (target_shape is None):
            raise ValueError(
                f"expected exactly one of classes and target_shape, got {classes} and {target_shape}"
            )
        self.length = length
        self.input_shape = tuple(input_shape)
        self.classes = classes
        self.target_shape = () if target_shape is None else tuple(target_shape)
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < self.length:
            raise IndexError(f"sample {index} of {self.length}")
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "random", index))
        inputs = torch.randn(self.input_shape, generator=generator)
        if self.classes is not None:
            return inputs, torch.randint(self.classes, (), generator=generator)
        return inputs, torch.randn(self.target_shape, generator=generator)

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batch, already collated: inputs (N, *input_shape), targets (N,) or (N, *target_shape)."""
        samples = [self[index] for index in indices]
        if not samples:
            dtype = torch.float32 if self.classes is None else torch.int64
            return torch.empty(0, *self.input_shape), torch.empty(0, *self.target_shape, dtype=dtype)
        return torch.stack([inputs for inputs, _ in samples]), torch.stack(
            [targets for _, targets in samples]
        )

    @staticmethod
    def collate_fn(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return batch  # __getitems__ has collated it
