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


def may_share_copies(tensors: Sequence[Tensor]) -> bool:
    """Whether parts of a copy are as good as copies: not if they would share a graph, or have no strides."""
    return all(
        type(one) is Tensor and one.layout is torch.strided and not one.requires_grad for one in tensors
    )


def rows_of_each(
    tensors: Sequence[Tensor], microbatches: Iterator[NDArray[np.int64]]
) -> Iterator[tuple[Tensor, ...]]:
    """What ``rows`` gives for every microbatch, asked for ahead where they are small.

    To ask for a few kilobytes takes longer than to copy them, so up to 64 KiB are copied at once.

    Raises:
        IndexError: when the microbatch is due that has an index out of range.
    """
    row_bytes = [tensor[:1].nbytes for tensor in tensors]
    for first in microbatches:
        fitting = _BYTES // max(1, len(first) * sum(row_bytes))
        together = [first, *islice(microbatches, max(0, min(fitting, _MICROBATCHES) - 1))]
        sizes = [len(one) for one in together]
        aligned = not any(size * one % _ALIGNMENT for size in set(sizes[:-1]) for one in row_bytes)
        copied = _if_in_range(tensors, np.concatenate(together)) if aligned and len(together) > 1 else None
        if copied is None:
            yield from (rows(tensors, one) for one in together)
        else:  # "unsafe", so that each part counts its own changes in place, as a tensor of its own does
            yield from zip(*(one.unsafe_split_with_sizes(sizes) for one in copied), strict=True)


def _if_in_range(tensors: Sequence[Tensor], indices: NDArray[np.int64]) -> tuple[Tensor, ...] | None:
    try:
        return rows(tensors, indices)
    except IndexError:  # raised again by the microbatch that has it, when the steps before it are done
        return None
