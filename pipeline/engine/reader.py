"""This rank's share of every global batch, microbatch by microbatch, read here or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.api.order import Order
from pipeline.api.settings import LoaderSettings
from pipeline.engine.dealing import Dealing, cut_evenly, share_size
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.position import Position
from pipeline.engine.share import Saved, Share
from pipeline.engine.sources import source_of
from pipeline.engine.world import World
from pipeline.errors import CheckpointError


class Reader:
    """Deals an order to this rank and reads its shares.

    One Reader lives as long as the run, so that its workers do.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        order: Order,
        dealing: Dealing,
        world: World,
        settings: LoaderSettings,
        *,
        max_microbatch_size: int | None,
        worker_seed: int,
    ) -> None:
        self.fetcher = fetcher
        self.order = order
        self.dealing = dealing
        self._world = world
        self._epoch: int | None = None
        # An epoch has shares of two or three sizes, and every step asks how one is cut.
        self._cut = cache(partial(cut_evenly, limit=max_microbatch_size or dealing.global_batch_size))
        self._source = source_of(fetcher, world, settings, worker_seed)

    @property
    def steps(self) -> int:
        """Global batches of an epoch."""
        return self.dealing.steps

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[Share]:
        """The shares of an epoch from ``first_step`` on; nothing before it is read."""
        self._set_epoch(epoch)
        steps = range(first_step, self.steps)
        batches = self._source.read(lambda: self._plan(epoch, steps))
        for step in steps:
            window_size = len(self.dealing.window(step))
            sizes = self.microbatch_sizes(window_size)
            is_last = partial(bool, step + 1 == self.steps)
            yield Share(window_size, sizes, (next(batches) for _ in sizes), is_last)

    def close(self) -> None:
        """End the workers."""
        self._source.close()

    def first_microbatch(self, epoch: int, step: int) -> Any:
        """The first microbatch of this rank at a step, read here; None where it has no sample."""
        self._set_epoch(epoch)
        request = next(self._plan(epoch, range(step, step + 1)), None)
        return self.fetcher[request] if request else None

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the position says all."""
        return {}

    def resume(self, position: Position, saved: Saved, say: Callable[[str], None]) -> None:
        """Find where the samples consumed so far lead to in the epoch as it is dealt now.

        Raises:
            CheckpointError: if that is in the middle of a global batch.
        """
        if position.epoch_ended:
            return
        consumed = position.step_in_epoch * saved.global_batch_size
        if consumed >= self.dealing.samples_used:
            position.epoch_ended = True
            return
        position.step_in_epoch, rest = divmod(consumed, self.dealing.global_batch_size)
        if rest:
            raise CheckpointError(
                f"{saved.checkpoint} stands at sample {consumed} of its epoch, in the middle of a global "
                f"batch of {self.dealing.global_batch_size}; resume with a global_batch_size that divides "
                f"{consumed}, or from a checkpoint at an epoch's end"
            )

    def microbatch_sizes(self, window_size: int) -> tuple[int, ...]:
        """How this rank's share of a window is cut."""
        return self._cut(share_size(window_size, self._world.rank, self._world.world_size))

    def _set_epoch(self, epoch: int) -> None:
        """Tell the dataset and the order, before anything is read; once for each epoch."""
        self.fetcher.set_epoch(epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            if hasattr(self.order, "set_epoch"):
                self.order.set_epoch(epoch)

    def _plan(self, epoch: int, steps: range) -> Iterator[Request]:
        """The requests of some steps, in order."""
        shares = self.dealing.shares(
            lambda start, stop: self.order.indices(epoch, start, stop),
            steps,
            rank=self._world.rank,
            world_size=self._world.world_size,
        )
        for share in shares:
            indices = np.ascontiguousarray(share, dtype=np.int64)
            start = 0
            for size in self._cut(len(indices)):
                yield Request(epoch, indices[start : start + size])
                start += size


class NaturalOrder:
    """0, 1, 2, ...: the order of evaluation."""

    def __init__(self, length: int) -> None:
        self.samples_per_epoch = length

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return np.arange(start, stop, dtype=np.int64)
