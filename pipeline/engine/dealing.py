"""Dealing an order of samples to the ranks: arithmetic, no tensors, no processes.

An epoch's order is cut into windows of ``global_batch_size``; of each window, rank r of W gets
``window[r::W]``. So the shares of a window are disjoint, complete, and differ by at most one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 1 << 14  # positions computed at once: the cost of a call is spread over many windows


@dataclass(frozen=True)
class Dealing:
    """How one epoch of ``samples`` positions is cut into global batches."""

    samples: int
    global_batch_size: int
    drop_last: bool = False

    @cached_property
    def steps(self) -> int:
        """Global batches in an epoch."""
        if self.drop_last:
            return self.samples // self.global_batch_size
        return -(-self.samples // self.global_batch_size)

    @cached_property
    def samples_used(self) -> int:
        """Samples that an epoch consumes, over all ranks."""
        return min(self.samples, self.steps * self.global_batch_size)

    def window(self, step: int) -> range:
        """The positions of global batch ``step`` of the epoch."""
        start = step * self.global_batch_size
        return range(start, min(start + self.global_batch_size, self.samples_used))

    def shares(
        self,
        indices: Callable[[int, int], NDArray[np.int64]],
        steps: range,
        *,
        rank: int,
        world_size: int,
    ) -> Iterator[NDArray[np.int64]]:
        """What falls to a rank of the windows of some steps, one array a step.

        Args:
            indices: gives the order's indices (stop - start,) at the positions ``start`` to ``stop``.
        """
        steps_per_block = max(1, _BLOCK // self.global_batch_size)
        for first in steps[::steps_per_block]:
            windows = [self.window(step) for step in range(first, min(first + steps_per_block, steps.stop))]
            start = windows[0].start
            block = indices(start, windows[-1].stop)
            for window in windows:
                yield block[window.start - start : window.stop - start][rank::world_size]


def share_size(window_size: int, rank: int, world_size: int) -> int:
    """How many of a window's samples fall to ``rank``: ``len(range(window_size)[rank::world_size])``."""
    return len(range(rank, window_size, world_size))


def cut_evenly(samples: int, limit: int) -> tuple[int, ...]:
    """Cut a share into as few microbatches of at most ``limit`` as possible, their sizes within one.

    Even sizes rather than full ones and a rest: a rest of one sample has no batch statistics.
    """
    pieces = -(-samples // limit)
    return tuple(len(range(piece, samples, pieces)) for piece in range(pieces))
