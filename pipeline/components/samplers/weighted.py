"""Samples drawn by weight."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from pipeline.api.seeds import derive_seed

_WORDS_PER_COUNT = 4  # a Philox generator gives so many 64-bit words for each value of its counter


class Weighted:
    """Samples drawn with replacement, each as often, on average, as its weight says.

    Which sample a position of an epoch gets depends on the run's seed, the epoch and the position alone.

    Args:
        weights: one weight for each sample, or a .npy file of them (N,); they need not sum to 1, and a
            sample of weight 0 is never drawn.
        samples_per_epoch: how many are drawn an epoch; default: as many as the dataset has.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if there are more or fewer weights than samples, one is negative or not finite, or
            none is positive.
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        seed: int,
        weights: list[float] | Path,
        samples_per_epoch: Annotated[int, Ge(1)] | None = None,
    ) -> None:
        values = _read(weights)
        _check(values, len(dataset))
        self._seed = seed
        self._samples = len(values) if samples_per_epoch is None else samples_per_epoch
        self._cumulative = np.cumsum(_scaled(values))
        self._last_drawn = int(np.flatnonzero(values)[-1])

    @property
    def samples_per_epoch(self) -> int:
        return self._samples

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        points = self._uniform(epoch, start, stop) * self._cumulative[-1]
        drawn = np.searchsorted(self._cumulative, points, side="right")
        in_range: NDArray[np.int64] = np.minimum(drawn, self._last_drawn)  # a point may round up to the sum
        return in_range

    def _uniform(self, epoch: int, start: int, stop: int) -> NDArray[np.float64]:
        """Numbers in [0, 1) for the positions, in O(stop - start) wherever they lie.

        From raw words: only these are promised to stay the same across numpy versions.
        """
        first_count, skipped = divmod(start, _WORDS_PER_COUNT)
        key = derive_seed(self._seed, "weighted", epoch)
        words = np.random.Philox(key=key, counter=first_count).random_raw(skipped + stop - start)[skipped:]
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _read(weights: list[float] | Path) -> NDArray[np.float64]:
    if not isinstance(weights, Path):
        return np.asarray(weights, dtype=np.float64)
    if not weights.is_file():
        raise FileNotFoundError(f"there is no file {weights}; set the sampler's weights")
    return np.asarray(np.load(weights), dtype=np.float64)


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same proportions, the largest below 1, so that no sum overflows and small ones keep their digits.

    By a power of two: exact, so that weights and their sums keep their bits.
    """
    _, exponent = np.frexp(values.max())
    scaled: NDArray[np.float64] = np.ldexp(values, -exponent)
    return scaled


def _check(values: NDArray[np.float64], length: int) -> None:
    if values.shape != (length,):
        raise ValueError(
            f"expected a weight for each of {length} samples, got weights of shape {values.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if wrong.size:
        raise ValueError(
            f"weights must be finite and not negative, got {values[wrong[0]]} for sample {wrong[0]}"
        )
    if not values.any():
        raise ValueError("at least one weight must be positive, got only zeros")
