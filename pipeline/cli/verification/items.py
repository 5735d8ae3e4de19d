"""Samples read one by one, as the engine reads them."""

from __future__ import annotations

import numpy as np

from pipeline.cli.verification.digest import digest
from pipeline.engine.assembly import Assembly
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.reader import Reader

COUNT = 16


def read(assembly: Assembly) -> dict[str, list[str]]:
    """Of each dataset with indices the digests of its first samples."""
    readers = {"train": assembly.data.train, **assembly.data.evaluation}
    return {
        name: digests(reader.fetcher, first(len(reader.fetcher.dataset)))
        for name, reader in readers.items()
        if isinstance(reader, Reader)
    }


def first(length: int) -> list[int]:
    """The indices that are looked at."""
    return list(range(min(length, COUNT)))


def digests(fetcher: Fetcher, indices: list[int]) -> list[str]:
    """The digest of every sample, read in epoch 0 and collated alone."""
    return [digest(fetcher[Request(0, np.array([index], dtype=np.int64))]) for index in indices]
