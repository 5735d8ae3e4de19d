"""A batch on its way from a worker to its rank: pickled where it was read, small tensors by value.

torch sends every tensor in shared memory of its own. That costs a file, its descriptor and a connection
to the worker, some 200 microseconds a tensor in the rank alone; in that time a small one is copied often.
"""

from __future__ import annotations

import io
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor, UntypedStorage

SMALL = 1 << 18
"""Bytes up to which copies take half the time of shared memory, or less."""


class Parcel:
    """A batch, pickled already; unpickling this gives the batch itself.

    Args:
        copied: bytes up to which the memory of a tensor is sent by value.
    """

    def __init__(self, batch: Any, copied: int = SMALL) -> None:
        file = io.BytesIO()
        _Pickler(file, copied).dump(batch)
        self._data = file.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return ForkingPickler.loads, (self._data,)


class _Pickler(ForkingPickler):
    """As torch pickles for another process, but for the memory of small tensors."""

    def __init__(self, file: io.BytesIO, copied: int) -> None:
        super().__init__(file)
        self._copied = copied

    def reducer_override(self, value: Any) -> Any:
        if type(value) is UntypedStorage and self._copies(value):
            return _storage, (_bytes(value),)  # once for each, so that views of one arrive as such
        return NotImplemented

    def _copies(self, storage: UntypedStorage) -> bool:
        return storage.device.type == "cpu" and 0 < storage.nbytes() <= self._copied


def _bytes(storage: UntypedStorage) -> bytes:
    held: Tensor = torch.empty(0, dtype=torch.uint8).set_(storage)
    return held.numpy().tobytes()


def _storage(data: bytes) -> UntypedStorage:
    """In torch's own memory, aligned as everywhere: what is computed from it may depend on that."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).clone().untyped_storage()
