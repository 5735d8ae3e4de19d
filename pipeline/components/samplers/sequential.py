"""The dataset's own order."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
from numpy.typing import NDArray


class Sequential:
    """Every sample once an epoch, in the dataset's order."""

    def __init__(self, dataset: Sized) -> None:
        self._length = len(dataset)

    @property
    def samples_per_epoch(self) -> int:
        return self._length

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return np.arange(start, stop, dtype=np.int64)
