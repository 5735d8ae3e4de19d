"""The garbage collector, out of the way of work that only adds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

REST = 100_000_000
"""More objects than are ever made; no 0, which a component may choose, and ten times as much fits too."""


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Let the garbage collector look at nothing inside; it would go through what is added again and again.

    What a component does about it while it is imported, to disable it or to choose a threshold, stays.
    """
    before = gc.get_threshold()
    gc.set_threshold(REST, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == REST:
            gc.set_threshold(*before)
