"""A new random order every epoch."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
from numpy.typing import NDArray

from pipeline.api.permutation import KeyedPermutation
from pipeline.api.seeds import derive_seed


class Shuffle:
    """Every sample once an epoch, in a random order that depends on the run's seed and the epoch.

    The order is computed, not stored: any length starts at once and takes no memory. It is the
    order of the public EpochSampler.
    """

    def __init__(self, dataset: Sized, *, seed: int) -> None:
        self._length = len(dataset)
        self._seed = seed
        self._last: tuple[int, KeyedPermutation] | None = None

    @property
    def samples_per_epoch(self) -> int:
        return self._length

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return self._permutation(epoch)(np.arange(start, stop, dtype=np.int64))

    def _permutation(self, epoch: int) -> KeyedPermutation:
        """The epoch's permutation; the last one is kept, as batches of one epoch are asked for in turn."""
        if self._last is None or self._last[0] != epoch:
            self._last = epoch, KeyedPermutation(self._length, derive_seed(self._seed, "shuffle", epoch))
        return self._last[1]
