"""Dealing at any scale, by simulation: 1e15 samples, 65,536 ranks, any batch, any place to resume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline import EpochSampler
from pipeline.engine.dealing import Dealing, share_size

LONGEST, MOST_RANKS = 10**15, 65_536
A_THOUSAND = settings(max_examples=min(settings.default.max_examples, 1000))
"""In a soak: an example takes some 30 ms here, and 5000 of them too long."""


@dataclass(frozen=True)
class Place:
    """A step of an epoch at which a run is resumed."""

    length: int
    world_size: int
    global_batch_size: int
    step: int
    seed: int = 7
    shuffle: bool = True

    def batches(self, rank: int, world_size: int, count: int) -> list[list[int]]:
        """What falls to a rank of the next global batches."""
        sampler = EpochSampler(
            self.length,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
            global_batch_size=self.global_batch_size,
            shuffle=self.shuffle,
        )
        sampler.load_state_dict({"epoch": 0, "samples": self.step * self.global_batch_size})
        return [batch for batch, _ in zip(sampler, range(count), strict=False)]

    def windows(self, count: int) -> list[list[int]]:
        """The next global batches, as one process sees them."""
        return self.batches(0, 1, count)


@st.composite
def places(draw: st.DrawFn, most_ranks: int) -> Place:
    length = draw(st.one_of(st.integers(1, 10**5), st.integers(1, LONGEST), st.just(LONGEST)))
    world_size = draw(st.one_of(st.integers(1, min(most_ranks, 9)), st.integers(1, most_ranks)))
    batch = draw(st.one_of(st.integers(1, 3000), st.integers(1, 4).map(world_size.__mul__)))
    step = draw(st.integers(0, Dealing(length, batch).steps - 1))
    return Place(length, world_size, batch, step, draw(st.integers(0, 2**32)), draw(st.booleans()))


FAR = Place(LONGEST, MOST_RANKS, 3 * MOST_RANKS + 17, 10**9)
LAST = Place(LONGEST, MOST_RANKS, 10**5, LONGEST // 10**5 - 1)


@A_THOUSAND
@example(FAR, [0, 16, 17, MOST_RANKS - 1])
@example(LAST, [0, 34_463, 34_464, MOST_RANKS - 1])
@given(places(MOST_RANKS), st.lists(st.integers(0, MOST_RANKS - 1), min_size=1, max_size=4))
def test_any_rank_s_shares_are_its_strides_of_the_windows(place, ranks):
    """From any place on: rank r of W has window[r::W] of that global batch and of those behind it."""
    windows = place.windows(2)
    for rank in {rank % place.world_size for rank in ranks}:
        expected = [window[rank :: place.world_size] for window in windows]
        assert place.batches(rank, place.world_size, 2) == expected


@A_THOUSAND
@given(places(64))
def test_the_shares_of_a_window_are_the_window(place):
    """The union of all ranks' shares is exactly the window; they are disjoint, their sizes within one."""
    windows = place.windows(3)
    by_rank = [place.batches(rank, place.world_size, 3) for rank in range(place.world_size)]
    for number, window in enumerate(windows):
        shares = [batches[number] for batches in by_rank]
        dealt = [index for share in shares for index in share]
        assert len(dealt) == len(window) and set(dealt) == set(window)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    seen = [index for window in windows for index in window]
    assert len(set(seen)) == len(seen)
    assert min(seen) >= 0 and max(seen) < place.length


def test_65536_ranks_share_a_window_of_1e15_samples():
    """All of them: every position of the window once, in shares of 3 and 4 samples."""
    dealing = Dealing(LONGEST, FAR.global_batch_size)
    window = dealing.window(FAR.step)
    positions = np.arange(window.start, window.stop)

    def order(start: int, stop: int):
        assert (start, stop) == (window.start, window.stop)
        return positions

    step = range(FAR.step, FAR.step + 1)
    shares = [
        next(dealing.shares(order, step, rank=rank, world_size=MOST_RANKS)) for rank in range(MOST_RANKS)
    ]
    assert np.array_equal(np.sort(np.concatenate(shares)), positions)
    sizes = [len(share) for share in shares]
    assert sizes == [share_size(len(window), rank, MOST_RANKS) for rank in range(MOST_RANKS)]
    assert set(sizes) == {3, 4}


@example(LONGEST, 64, False)
@given(st.integers(1, LONGEST), st.integers(1, 10**6), st.booleans())
def test_the_windows_cover_an_epoch_of_any_length(length, batch, drop_last):
    """Each begins where the one before ends, the first at 0 and the last at the samples that are used."""
    dealing = Dealing(length, batch, drop_last)
    if dealing.steps == 0:
        assert drop_last and length < batch
        return
    first, last = dealing.window(0), dealing.window(dealing.steps - 1)
    assert first.start == 0 and last.stop == dealing.samples_used
    assert length - dealing.samples_used == (length % batch if drop_last else 0)
    for step in filter(range(dealing.steps - 1).__contains__, (0, dealing.steps // 3, dealing.steps - 2)):
        assert dealing.window(step) == range(step * batch, dealing.window(step + 1).start)
        assert len(dealing.window(step)) == batch
