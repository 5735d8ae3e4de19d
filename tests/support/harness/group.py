"""A process group for test functions that run in ranks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


@contextmanager
def process_group(backend: str = "gloo", timeout_seconds: float = 60) -> Iterator[None]:
    """The group of all ranks of the job, from the environment; gone again at the end.

    Use DistributedDataParallel in a function of its own inside it: a wrapper that outlives the group
    holds the last reference to it, and its end then deadlocks with gloo's threads now and then.
    """
    import torch.distributed as dist

    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_seconds))
    try:
        yield
    finally:
        gc.collect()
        dist.destroy_process_group()
