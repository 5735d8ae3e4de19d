"""The keyed permutation: every item once, the same for ever, at any length."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.api.permutation import KeyedPermutation
from pipeline.api.seeds import derive_seed

KEY = derive_seed(7, "shuffle", 0)
SORTED_BELOW = 1 << 14  # where the method changes
KEYS = st.integers(min_value=0, max_value=(1 << 63) - 1)


@pytest.mark.parametrize(
    ("length", "positions", "expected"),
    [
        (16, range(16), [13, 2, 8, 4, 1, 3, 0, 12, 9, 7, 5, 6, 10, 11, 15, 14]),
        (SORTED_BELOW + 1, range(8), [13177, 12979, 5545, 15206, 1759, 8718, 6886, 1584]),
        (10**12, range(4), [879545331331, 350243913930, 500928268847, 449873615379]),
    ],
)
def test_golden_values(length, positions, expected):
    """The order of an experiment's samples: if these change, no old experiment can be run again."""
    assert KeyedPermutation(length, KEY)(np.array(positions)).tolist() == expected


@given(st.integers(0, 3000), KEYS)
def test_a_short_range_comes_once_and_whole(length, key):
    items = KeyedPermutation(length, key)(np.arange(length))
    assert items.dtype == np.int64
    assert np.array_equal(np.sort(items), np.arange(length))


@given(st.one_of(st.integers(SORTED_BELOW - 1, 40_000), st.sampled_from([1 << 15, (1 << 15) + 1])), KEYS)
def test_a_long_range_comes_once_and_whole(length, key):
    items = KeyedPermutation(length, key)(np.arange(length))
    assert np.array_equal(np.sort(items), np.arange(length))


@given(st.integers(SORTED_BELOW + 1, 1 << 62), KEYS, st.data())
def test_any_window_of_any_length_has_distinct_items_in_range(length, key, data):
    start = data.draw(st.integers(0, length - 1))
    positions = np.arange(start, min(start + 2000, length))
    items = KeyedPermutation(length, key)(positions)
    assert len(np.unique(items)) == len(positions)
    assert items.min() >= 0 and items.max() < length


@given(st.integers(1, 100_000), KEYS, st.data())
def test_positions_are_independent_of_what_is_asked_with_them(length, key, data):
    permute = KeyedPermutation(length, key)
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=20))
    together = permute(np.array(positions))
    assert [permute(np.array([position]))[0] for position in positions] == together.tolist()


@pytest.mark.parametrize("length", [16, SORTED_BELOW, SORTED_BELOW + 1, 10**12])
def test_keys_give_unrelated_orders(length):
    positions = np.arange(min(length, 1000))
    first, second = (
        KeyedPermutation(length, derive_seed(7, "shuffle", epoch))(positions) for epoch in (0, 1)
    )
    assert np.mean(first == second) < 0.2
    assert np.mean(np.diff(first) == 1) < 0.2


def test_items_are_spread_evenly():
    """10,000 items of 1e12 in 10 equal parts: each part gets 1,000, give or take 5 deviations (30)."""
    items = KeyedPermutation(10**12, KEY)(np.arange(10_000))
    assert np.abs(np.bincount(items // 10**11, minlength=10) - 1000).max() < 150


def test_a_long_range_costs_no_memory():
    tracemalloc.start()
    try:
        KeyedPermutation(10**12, KEY)(np.arange(10**12 - 10, 10**12))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [-1, (1 << 62) + 1])
def test_lengths_out_of_range_are_refused(length):
    with pytest.raises(ValueError, match=rf"0\.\.2\*\*62, got {length}"):
        KeyedPermutation(length, KEY)
