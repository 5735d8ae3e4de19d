"""Dealing an order to ranks: the windows and the shares, as arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.dealing import Dealing, share_size

DEALINGS = st.builds(Dealing, st.integers(0, 500), st.integers(1, 70), st.booleans())


@given(DEALINGS)
def test_the_windows_are_the_epoch_in_order(dealing):
    positions = [position for step in range(dealing.steps) for position in dealing.window(step)]
    assert positions == list(range(dealing.samples_used))


@given(DEALINGS)
def test_every_window_is_full_but_the_last(dealing):
    sizes = [len(dealing.window(step)) for step in range(dealing.steps)]
    assert all(size == dealing.global_batch_size for size in sizes[:-1])
    assert all(size > 0 for size in sizes)


@given(DEALINGS)
def test_what_is_left_out_is_less_than_a_batch_and_only_if_wished(dealing):
    left_out = dealing.samples - dealing.samples_used
    if dealing.drop_last:
        assert left_out == dealing.samples % dealing.global_batch_size
    else:
        assert left_out == 0


@given(st.integers(0, 500), st.integers(1, 40))
def test_shares_are_the_strided_slices_and_differ_by_one_at_most(window_size, world_size):
    window = range(window_size)
    sizes = [share_size(window_size, rank, world_size) for rank in range(world_size)]
    assert sizes == [len(window[rank::world_size]) for rank in range(world_size)]
    assert sum(sizes) == window_size
    assert max(sizes) - min(sizes) <= 1


def test_an_epoch_of_1e12_samples_is_arithmetic_too():
    dealing = Dealing(10**12, 64)
    assert dealing.steps == 15_625_000_000
    assert dealing.window(dealing.steps - 1) == range(10**12 - 64, 10**12)
