"""What a worker sends arrives as it was: small tensors by value, large ones in shared memory."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset
from torch.utils.data._utils import signal_handling

from pipeline.api.settings import LoaderSettings
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.parcel import SMALL, Parcel
from pipeline.engine.sources import source_of
from pipeline.engine.world import World


def sent(batch):
    return ForkingPickler.loads(bytes(ForkingPickler.dumps(Parcel(batch))))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).view(2, 3),
        torch.arange(6.0).view(2, 3).T,
        torch.arange(6)[::2],
        torch.tensor(2.5, dtype=torch.float64),
        torch.tensor([True, False]),
        torch.ones(3, dtype=torch.bfloat16),
        torch.tensor([1 + 2j]),
        torch.empty(0, 4),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, requires_grad=True),
    ],
    ids=str,
)
def test_a_small_tensor_arrives_equal_in_memory_of_its_own(tensor):
    there = sent(tensor)
    assert type(there) is type(tensor) and there.dtype == tensor.dtype
    assert there.stride() == tensor.stride() and there.requires_grad == tensor.requires_grad
    assert torch.equal(there, tensor)
    assert not there.is_shared() or not tensor.numel()
    assert there.data_ptr() != tensor.data_ptr() or not tensor.numel()


def test_it_is_aligned_as_one_that_was_computed_here():
    """A matrix product may take another path, and another rounding, for memory that is not."""
    batch = sent([torch.ones(size) for size in range(1, 40)])
    assert all(tensor.data_ptr() % 64 == 0 for tensor in batch)


def test_views_of_one_memory_arrive_as_such():
    whole = torch.zeros(4, 2)
    there = sent({"whole": whole, "row": whole[1], "again": whole})
    there["row"].fill_(7.0)
    assert there["whole"].tolist() == [[0, 0], [7, 7], [0, 0], [0, 0]]
    assert there["again"] is there["whole"]
    assert whole.sum() == 0


def test_a_large_tensor_comes_in_shared_memory():
    at_limit, above = torch.zeros(SMALL, dtype=torch.uint8), torch.zeros(SMALL + 1, dtype=torch.uint8)
    there = sent((at_limit, above))
    assert [tensor.is_shared() for tensor in there] == [False, True]
    assert torch.equal(there[1], above)


class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((2,), float(index))


@pytest.mark.filterwarnings("ignore:.*pin_memory")  # there may be nothing to pin for
@pytest.mark.parametrize("pins", [True, False])
def test_a_loader_that_pins_is_sent_shared_memory(pins, monkeypatch):
    monkeypatch.setattr(signal_handling, "_SIGCHLD_handler_set", True)  # torch would set it, and leave it
    settings = LoaderSettings(workers=1, pin_memory=pins)
    world = World(0, 0, 1, 1, torch.device("cpu"), "here")
    source = source_of(Fetcher(Rows(), seed=1, sample_seeds=False), world, settings, seed=1)
    batch = next(source.read(lambda: iter([Request(0, np.arange(3))])))
    source.close()
    assert batch.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch.is_shared() == pins
