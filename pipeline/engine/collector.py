"""The garbage collector, out of the way of work that only adds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Let the garbage collector look at nothing inside; it would go through what is added again and again.

    By its threshold: a component that disables it while it is imported means the whole run.
    """
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == 0:  # or somebody inside has chosen another
            gc.set_threshold(*before)
