"""Seeds of streams: fixed for ever, and apart from one another."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.api.seeds import derive_seed

PURPOSE = st.lists(st.one_of(st.integers(), st.text()), max_size=4)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0,), 4246866556266386882),
        ((-1, "a"), 766114129048286483),
        ((7, "shuffle", 0), 1570736852736782257),
        ((7, "shuffle", 1), 6852621087870095755),
        ((7, "shuffle", "1"), 6193509778551112266),
    ],
)
def test_golden_values(arguments, expected):
    """These numbers are part of every experiment's record: an experiment run again must find them."""
    assert derive_seed(*arguments) == expected


@given(st.integers(), PURPOSE)
def test_a_seed_is_a_63_bit_number(seed, purpose):
    assert 0 <= derive_seed(seed, *purpose) < 1 << 63


def test_no_stream_is_another_ones_neighbour():
    """SMP-01: hashing, not adding: seed 42's second epoch is not seed 43's first."""
    streams = [
        derive_seed(seed, purpose, epoch)
        for seed, purpose, epoch in itertools.product(range(40), ("shuffle", "dropout"), range(40))
    ]
    assert len(set(streams)) == len(streams)


def test_the_type_and_the_place_of_an_argument_count():
    assert len({derive_seed(1, 2, 3), derive_seed(1, "2", 3), derive_seed(1, 23), derive_seed(12, 3)}) == 4
