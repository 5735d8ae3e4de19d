"""A process group for test functions that run in ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


@contextmanager
def process_group(backend: str = "gloo", timeout_seconds: float = 60) -> Iterator[None]:
    """The group of all ranks of the job, from the environment; gone again at the end."""
    import torch.distributed as dist

    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_seconds))
    try:
        yield
    finally:
        dist.destroy_process_group()
