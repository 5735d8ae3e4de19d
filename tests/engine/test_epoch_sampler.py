"""EpochSampler: every sample once an epoch over all ranks, from any position on."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import EpochSampler


@dataclass(frozen=True)
class Case:
    """A sampler's arguments, less the rank."""

    length: int
    world_size: int
    global_batch_size: int
    seed: int = 7
    shuffle: bool = True
    drop_last: bool = False

    def sampler(self, rank: int, epoch: int = 0) -> EpochSampler:
        sampler = EpochSampler(
            self.length,
            seed=self.seed,
            rank=rank,
            world_size=self.world_size,
            global_batch_size=self.global_batch_size,
            shuffle=self.shuffle,
            drop_last=self.drop_last,
        )
        sampler.set_epoch(epoch)
        return sampler

    def batches(self, epoch: int = 0) -> list[list[list[int]]]:
        """Per global batch, every rank's share."""
        shares = [list(self.sampler(rank, epoch)) for rank in range(self.world_size)]
        return [list(batch) for batch in zip(*shares, strict=True)]

    def order(self, epoch: int = 0) -> list[int]:
        """The order of the epoch, from the shares laid together again."""
        return [index for batch in self.batches(epoch) for index in interleaved(batch)]

    @property
    def samples_used(self) -> int:
        return self.length - (self.length % self.global_batch_size if self.drop_last else 0)


def interleaved(shares: list[list[int]]) -> list[int]:
    """The window of which ``window[r::W]`` is the share of rank r."""
    rounds = itertools.zip_longest(*shares)
    return [index for round_ in rounds for index in round_ if index is not None]


CASES = st.builds(
    Case,
    length=st.integers(0, 300) | st.sampled_from([16383, 16384, 16385, 20000]),
    world_size=st.integers(1, 9),
    global_batch_size=st.integers(1, 80) | st.just(16385),
    seed=st.integers(-(2**63), 2**64),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
).filter(lambda case: case.length // case.global_batch_size < 400)
SMALL = CASES.filter(lambda case: case.length <= 300)


@given(CASES, st.integers(0, 5))
def test_every_sample_comes_once_and_shares_differ_by_one_at_most(case, epoch):
    """SMP-01, SMP-04: the shares of all ranks are a partition of the epoch, whatever the numbers."""
    batches = case.batches(epoch)
    dealt = [index for batch in batches for share in batch for index in share]
    assert len(dealt) == len(set(dealt)) == case.samples_used
    if not case.drop_last:
        assert set(dealt) == set(range(case.length))
    for batch in batches:
        sizes = [len(share) for share in batch]
        assert max(sizes) - min(sizes) <= 1
    assert all(sum(map(len, batch)) == case.global_batch_size for batch in batches[:-1])


@given(CASES, st.integers(1, 9))
def test_the_order_does_not_depend_on_the_number_of_ranks(case, world_size):
    """The interleaved shares are the order that a single process sees, batch by batch."""
    alone = [batch[0] for batch in replace(case, world_size=1).batches()]
    assert [interleaved(batch) for batch in replace(case, world_size=world_size).batches()] == alone


@given(SMALL, st.integers(1, 80))
def test_the_order_does_not_depend_on_the_batch_size(case, other):
    whole = replace(case, drop_last=False)
    assert whole.order() == replace(whole, global_batch_size=other).order()


@given(SMALL.filter(lambda case: not case.shuffle))
def test_without_shuffling_the_order_is_the_natural_one(case):
    """SMP-01: ``shuffle=False``."""
    assert case.order(epoch=3) == list(range(case.samples_used))


def test_epochs_and_seeds_have_orders_of_their_own():
    """SMP-01: 16 samples, 2 ranks, batches of 2, 3 epochs, seeds 1 and 2; and again the same."""
    case = Case(16, 2, 2)
    orders = [tuple(replace(case, seed=seed).order(epoch)) for seed in (1, 2) for epoch in range(3)]
    assert len(set(orders)) == 6
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert orders == [tuple(replace(case, seed=seed).order(epoch)) for seed in (1, 2) for epoch in range(3)]


def test_one_seeds_second_epoch_is_not_the_next_seeds_first():
    assert Case(16, 1, 16, seed=42).order(epoch=1) != Case(16, 1, 16, seed=43).order(epoch=0)


def test_an_epochs_order_is_frozen():
    """Golden values: an experiment that is run again sees its samples in the order it saw them."""
    assert Case(16, 2, 6).batches() == [
        [[13, 8, 1], [2, 4, 3]],
        [[0, 9, 5], [12, 7, 6]],
        [[10, 15], [11, 14]],
    ]


def test_global_random_generators_are_neither_read_nor_moved():
    """SMP-04: what a plugin drew before, differently on each rank, changes nothing."""
    orders = []
    for draws in (0, 5):
        for _ in range(draws):
            random.random(), np.random.random()
        before = random.getstate()
        orders.append(Case(16, 2, 4).order())
        assert random.getstate() == before
    assert orders[0] == orders[1]


@given(SMALL, st.integers(0, 3), st.integers(1, 9), st.data())
def test_it_goes_on_from_any_position_at_any_world_size(case, epoch, world_size, data):
    """The state taken after k batches, the whole epoch's too, gives the rest of them."""
    batches = case.batches(epoch)
    done = data.draw(st.integers(0, len(batches)))
    first = case.sampler(0, epoch)
    list(itertools.islice(first, done))
    state = json.loads(json.dumps(first.state_dict()))

    other = replace(case, world_size=world_size)
    rest = []
    for rank in range(world_size):
        sampler = other.sampler(rank)
        sampler.load_state_dict(state)
        sampler.set_epoch(epoch)  # as a loop does before every epoch: the position stays
        rest.append(list(sampler))
    expected = [interleaved(batch) for batch in batches[done:]]
    assert [interleaved(list(batch)) for batch in zip(*rest, strict=True)] == expected


@given(SMALL, st.data())
def test_a_state_counts_the_batch_in_use(case, data):
    """A checkpoint is taken after a step, while the iterator stands at that step's batch."""
    sampler = case.sampler(0, epoch=2)
    for done, _ in enumerate(sampler, start=1):
        assert sampler.state_dict() == {"epoch": 2, "samples": done * case.global_batch_size}


def test_after_an_epoch_the_next_one_is_whole():
    case = Case(10, 1, 4)
    sampler = case.sampler(0)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append([index for batch in sampler for index in batch])
    assert epochs == [case.order(epoch) for epoch in range(3)]


def test_iterating_again_without_an_epoch_repeats_it_whole():
    case = Case(10, 1, 4)
    sampler = case.sampler(0)
    assert list(sampler) == list(sampler) == [batch[0] for batch in case.batches()]


def test_a_state_at_the_end_of_an_epoch_leads_into_the_next():
    """Resumed there, the finished epoch has nothing left, and the next one is whole."""
    case = Case(10, 1, 4)
    first = case.sampler(0)
    list(first)
    resumed = case.sampler(0)
    resumed.load_state_dict(first.state_dict())
    resumed.set_epoch(0)
    assert list(resumed) == []
    resumed.set_epoch(1)
    assert [index for batch in resumed for index in batch] == case.order(epoch=1)


def test_a_broken_off_epoch_goes_on_where_it_was_left():
    sampler = Case(10, 1, 4).sampler(0)
    first = list(itertools.islice(sampler, 1))
    assert first + list(sampler) == [batch[0] for batch in Case(10, 1, 4).batches()]


def test_a_position_between_two_batches_of_another_size_is_refused():
    sampler = Case(10, 1, 4).sampler(0)
    with pytest.raises(ValueError, match="sample 6, which is no multiple of global_batch_size 4"):
        sampler.load_state_dict({"epoch": 0, "samples": 6})


def test_1e12_samples_cost_what_a_thousand_do():
    """O(1) memory and start-up: the peak holds a block of positions, whatever the length."""
    peaks = {}
    for length in (10**5, 10**12):
        tracemalloc.start()
        try:
            sampler = Case(length, 8, 64).sampler(3, epoch=1)
            batches = list(itertools.islice(sampler, 100))
            peaks[length] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert all(len(batch) == 8 for batch in batches)
        assert len({index for batch in batches for index in batch}) == 800
    assert peaks[10**12] < 5_000_000
    assert peaks[10**12] < 1.5 * peaks[10**5]


def test_the_last_batches_of_1e12_samples_are_reached_at_once():
    sampler = Case(10**12, 2, 64).sampler(0)
    sampler.load_state_dict({"epoch": 0, "samples": 10**12 - 128})
    assert [len(batch) for batch in sampler] == [32, 32]
    assert len(sampler) == 10**12 // 64


def test_a_dataloader_takes_it_as_its_batch_sampler():
    from torch.utils.data import DataLoader

    case = Case(16, 2, 4)
    seen = []
    for rank in range(2):
        loader = DataLoader(list(range(100, 116)), batch_sampler=case.sampler(rank))
        assert len(loader) == 4
        seen.append([batch.tolist() for batch in loader])
    assert seen == [[[100 + index for index in batch[rank]] for batch in case.batches()] for rank in range(2)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rank": 2}, r"rank must be in 0\.\.1, got 2"),
        ({"rank": -1}, r"rank must be in 0\.\.1, got -1"),
        ({"rank": 0, "world_size": 0}, "rank"),
        ({"global_batch_size": 0}, "global_batch_size 0"),
        ({"length": -1}, "length -1"),
    ],
)
def test_impossible_arguments_are_refused(wrong, message):
    arguments = {"length": 16, "seed": 0, "rank": 0, "world_size": 2, "global_batch_size": 4} | wrong
    with pytest.raises(ValueError, match=message):
        EpochSampler(arguments.pop("length"), **arguments)
