"""The order of torch's DistributedSampler."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
import torch
from numpy.typing import NDArray


class TorchOrder:
    """Every sample once an epoch, in the order of DistributedSampler: its generator has seed + epoch.

    For comparisons with hand-written loops. It differs from DistributedSampler by its padding, which
    this has none of. An epoch's order is held in memory, 8 bytes a sample.
    """

    def __init__(self, dataset: Sized, *, seed: int) -> None:
        self._length = len(dataset)
        self._seed = seed
        self._last: tuple[int, NDArray[np.int64]] | None = None

    @property
    def samples_per_epoch(self) -> int:
        return self._length

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return self._order(epoch)[start:stop].copy()

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """An epoch's whole order; the last one is kept, as batches of one epoch are asked for in turn."""
        if self._last is None or self._last[0] != epoch:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            order: NDArray[np.int64] = torch.randperm(self._length, generator=generator).numpy()
            self._last = epoch, order
        return self._last[1]
