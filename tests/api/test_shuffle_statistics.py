"""The keyed permutation against what a true shuffle gives, with 5 standard deviations as the threshold.

Keys are those of the seeds and epochs of real runs, so every number here is the same in every run of the
tests. A true shuffle fails one check of these in two million.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.api.permutation import KeyedPermutation
from pipeline.api.seeds import derive_seed

Items = NDArray[np.int64]

DEVIATIONS = 5.0
LENGTHS = [1000, 1 << 14, (1 << 14) + 1, 20_000, 1 << 15]
"""By sorting up to 2**14; by the network from there on, nearly half of it outside the range, and none."""
HUGE = [10**9, 10**12, (1 << 40) + 1, 10**15]


def shuffled(length: int, seed: int, epoch: int, window: range | None = None) -> Items:
    """The order of an epoch, or a window of it, as the sampler ``shuffle`` gives it."""
    positions = range(length) if window is None else window
    return KeyedPermutation(length, derive_seed(seed, "shuffle", epoch))(
        np.arange(positions.start, positions.stop)
    )


def close_to(value: float, mean: float, deviation: float) -> bool:
    return abs(value - mean) <= DEVIATIONS * deviation


def even(counts: NDArray[np.int64], freedom: int) -> bool:
    """Whether counts over equally likely cells have the chi-square that chance gives; no more even either."""
    expected = counts.sum() / counts.size
    chi_square = float(((counts - expected) ** 2).sum() / expected)
    return close_to(chi_square, freedom, np.sqrt(2 * freedom))


def correlation(one: Items, other: Items) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def orders(length: int, count: int) -> Iterator[Items]:
    """Of so many seeds and epochs."""
    return (shuffled(length, number // 10, number % 10) for number in range(count))


@pytest.mark.parametrize("length", LENGTHS)
def test_positions_say_nothing_of_items(length, count):
    """In a table of 16 parts of the positions by 16 of the items every cell is as full as any other."""
    positions = np.arange(length) * 16 // length
    for items in orders(length, count(20, 500)):
        table = np.zeros((16, 16), dtype=np.int64)
        np.add.at(table, (positions, items * 16 // length), 1)
        assert even(table, freedom=15 * 15)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_every_item_is_as_likely_at_a_position(length, place, count):
    """The first, middle and last position over many seeds, in 20 parts of the items."""
    position = round(place * (length - 1))
    window = range(position, position + 1)
    items = [shuffled(length, seed, 0, window)[0] for seed in range(count(400, 5000))]
    assert even(np.bincount(np.array(items) * 20 // length, minlength=20), freedom=19)


@pytest.mark.parametrize("length", LENGTHS)
def test_neighbours_are_no_nearer_than_by_chance(length, count):
    """Items that follow each other: 2 pairs of successive ones an order, and no correlation."""
    number = count(20, 500)
    close = 0
    for items in orders(length, number):
        close += int((np.abs(np.diff(items)) == 1).sum())
        for lag in (1, 2, length // 2):
            assert close_to(correlation(items[:-lag], items[lag:]), 0, 1 / np.sqrt(length - lag))
    assert close_to(close, 2 * number, np.sqrt(2 * number))


@pytest.mark.parametrize("length", LENGTHS)
def test_fixed_points_are_as_many_as_by_chance(length, count):
    """A Poisson number with mean 1 an order: the mean over all orders, and the variance."""
    number = count(100, 2000)
    fixed = np.array([(items == np.arange(length)).sum() for items in orders(length, number)])
    assert close_to(fixed.mean(), 1, 1 / np.sqrt(number))
    assert close_to(fixed.var(), 1, np.sqrt(3 / number))


def epochs_in_turn(length: int, count: int) -> Iterator[tuple[Items, Items]]:
    yield from itertools.pairwise(shuffled(length, 42, epoch) for epoch in range(count + 1))


def seeds_in_turn(length: int, count: int) -> Iterator[tuple[Items, Items]]:
    yield from itertools.pairwise(shuffled(length, seed, 0) for seed in range(count + 1))


def seed_and_epoch_exchanged(length: int, count: int) -> Iterator[tuple[Items, Items]]:
    for number in range(count):
        yield shuffled(length, number, number + 1), shuffled(length, number + 1, number)


def next_epoch_of_the_seed_before(length: int, count: int) -> Iterator[tuple[Items, Items]]:
    """The pairs that are equal where seed and epoch are added."""
    for number in range(count):
        yield shuffled(length, number, 1), shuffled(length, number + 1, 0)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    "pairs", [epochs_in_turn, seeds_in_turn, seed_and_epoch_exchanged, next_epoch_of_the_seed_before]
)
def test_orders_of_other_epochs_and_seeds_are_unrelated(length, pairs: Callable, count):
    """Agreeing positions, neighbours that stay so, and correlation, as of two independent shuffles."""
    number = count(10, 200)
    agreeing = kept = 0
    for one, other in pairs(length, number):
        agreeing += int((one == other).sum())
        place = np.empty(length, dtype=np.int64)
        place[other] = np.arange(length)
        kept += int((np.abs(np.diff(place[one])) == 1).sum())
        assert close_to(correlation(one, other), 0, 1 / np.sqrt(length))
    assert close_to(agreeing, number, np.sqrt(number))
    assert close_to(kept, 2 * number, np.sqrt(2 * number))


@pytest.mark.parametrize("length", HUGE)
def test_a_window_of_a_huge_epoch_is_spread_over_all_of_it(length, count):
    """20,000 positions from anywhere: even in parts of the items and their last digits, no correlation."""
    size = 20_000
    for number in range(count(5, 100)):
        start = derive_seed(number, "window") % (length - size)
        items = shuffled(length, number, 3, range(start, start + size))
        assert even(np.bincount(items // (length // 64 + 1), minlength=64), freedom=63)
        assert even(np.bincount(items % 61, minlength=61), freedom=60)
        assert close_to(correlation(items[:-1], items[1:]), 0, 1 / np.sqrt(size))
        assert close_to(correlation(items, np.arange(size)), 0, 1 / np.sqrt(size))
