"""engine.rows: microbatches of rows in memory, several copied together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipeline.engine.rows import rows_of_each

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
