"""Rows of tensors in memory, those of several small microbatches copied together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BYTES = 1 << 16
_MICROBATCHES = 64
_ALIGNMENT = 64
"""Bytes, as torch's allocator keeps. The bits of a sum may depend on where its first number lies, so each
microbatch has to lie as it would alone: a resumed run copies other ones together."""


def rows(tensors: Sequence[Tensor], indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
    """The rows (N, ...) at ``indices`` (N,) of each tensor (samples, ...), copied."""
    index = torch.from_numpy(indices)
    return tuple(tensor.index_select(0, index) for tensor in tensors)


def rows_of_each(
    tensors: Sequence[Tensor], microbatches: Iterator[NDArray[np.int64]]
) -> Iterator[tuple[Tensor, ...]]:
    """What ``rows`` gives for every microbatch, asked for ahead where they are small.

    To ask for a few kilobytes takes longer than to copy them, so up to 64 KiB are copied at once.
    """
    row_bytes = [tensor[:1].nbytes for tensor in tensors]
    for first in microbatches:
        fitting = _BYTES // max(1, len(first) * sum(row_bytes))
        together = [first, *islice(microbatches, max(0, min(fitting, _MICROBATCHES) - 1))]
        sizes = [len(one) for one in together]
        if any(size * one % _ALIGNMENT for size in set(sizes[:-1]) for one in row_bytes):
            yield from (rows(tensors, one) for one in together)
        else:  # "unsafe", so that each part counts its own changes in place, as a tensor of its own does
            parts = (
                copied.unsafe_split_with_sizes(sizes) for copied in rows(tensors, np.concatenate(together))
            )
            yield from zip(*parts, strict=True)
