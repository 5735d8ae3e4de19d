"""engine.rows: microbatches of rows in memory, several copied together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from pipeline.api.settings import LoaderSettings
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.rows import rows_of_each
from pipeline.engine.sources import source_of
from pipeline.engine.world import World

INPUTS, TARGETS = torch.arange(4800.0).reshape(600, 8), torch.arange(600)


def _cut(sizes: list[int]) -> list[NDArray[np.int64]]:
    order = np.random.default_rng(3).permutation(600)
    return np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])


@pytest.mark.parametrize(
    "sizes",
    [[32] * 18, [32] * 3 + [5], [5] * 30, [32, 31, 32], [16, 8, 24, 1], [600], [0, 32, 0, 32]],
    ids=str,
)
def test_every_microbatch_has_its_own_rows_lies_as_alone_and_counts_its_own_changes(sizes: list[int]) -> None:
    microbatches = _cut(sizes)
    read = list(rows_of_each([INPUTS, TARGETS], iter(microbatches)))
    assert len(read) == len(sizes)
    for indices, (inputs, targets) in zip(microbatches, read, strict=True):
        assert torch.equal(inputs, INPUTS[indices])
        assert torch.equal(targets, TARGETS[indices])
        for part in (inputs, targets):
            assert part.is_contiguous()
            assert part.data_ptr() % 64 == 0 or not part.numel()
            before = part._version
            part.add_(1)
            assert part._version == before + 1  # not also what its neighbours have changed
            assert not part._is_view()
    assert torch.equal(TARGETS, torch.arange(600))


@pytest.mark.parametrize(
    ("width", "size", "together"),
    [(8, 32, 64), (16, 32, 32), (16, 1, 64), (8, 1, 1), (2048, 64, 1), (300, 64, 1), (0, 32, 64)],
)
def test_so_many_are_copied_together_as_fill_64_kib_and_lie_aligned(
    width: int, size: int, together: int
) -> None:
    taken: list[int] = []

    def microbatches() -> Iterator[NDArray[np.int64]]:
        for at in range(200):
            taken.append(at)
            yield np.full(size, at % 64)

    reading = rows_of_each([torch.zeros(64, width)], microbatches())
    memory = next(reading)[0].untyped_storage()
    assert len(taken) <= 64
    assert memory.nbytes() == together * size * width * 4
    assert sum(1 for _ in reading) == 199


def test_an_index_out_of_range_is_an_error_when_its_own_microbatch_is_due() -> None:
    microbatches = [np.arange(32), np.arange(32), np.full(32, 600), np.arange(32)]
    reading = rows_of_each([INPUTS, TARGETS], iter(microbatches))
    for _ in range(2):
        assert torch.equal(next(reading)[1], TARGETS[:32])
    with pytest.raises(IndexError):
        next(reading)


def _read(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """Two microbatches of 32, as a run reads them."""
    fetcher = Fetcher(TensorDataset(*tensors), seed=1, sample_seeds="auto")
    world = World(0, 0, 1, 1, torch.device("cpu"), "here")
    source = source_of(fetcher, world, LoaderSettings(), 1)
    requests = [Request(0, np.arange(start, start + 32)) for start in (0, 32)]
    return list(source.read(lambda: iter(requests)))


def test_rows_that_require_grad_have_a_graph_for_each_microbatch() -> None:
    points = torch.ones(64, 8, requires_grad=True)
    for (batch,) in _read(points):
        (batch * batch).sum().backward()
    assert points.grad is not None and torch.equal(points.grad, torch.full((64, 8), 2.0))


def test_rows_of_a_sparse_tensor_are_read() -> None:
    whole = torch.eye(64)
    parts = [batch.to_dense() for (batch,) in _read(whole.to_sparse())]
    assert torch.equal(torch.cat(parts), whole)


def test_small_rows_are_read_together() -> None:
    """So that the two tests above see the exceptions."""
    first, second = (batch.untyped_storage().data_ptr() for (batch,) in _read(torch.ones(64, 8)))
    assert first == second
