"""This rank's share of every global batch, microbatch by microbatch, read here or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from pipeline.api.order import Order
from pipeline.api.settings import LoaderSettings
from pipeline.engine import worker
from pipeline.engine.dealing import Dealing, cut_evenly, share_size
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.world import World

_BLOCK = 1 << 14  # indices asked of an order at once


@dataclass(frozen=True, slots=True)
class Share:
    """What falls to this rank of one global batch."""

    window_size: int
    """Samples of the global batch, over all ranks."""
    sizes: tuple[int, ...]
    """Samples of each microbatch of this rank; empty where it has none."""
    microbatches: Iterator[Any]
    """The microbatches themselves, read as they are asked for; consume all of them."""


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
        self._max_microbatch_size = max_microbatch_size or dealing.global_batch_size
        self._requests = _Requests()
        self._loader = (
            _worker_loader(fetcher, self._requests, world, settings, worker_seed)
            if settings.workers
            else None
        )

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[Share]:
        """The shares of an epoch from ``first_step`` on; nothing before it is read."""
        self._set_epoch(epoch)
        if self._loader is None:
            batches: Iterator[Any] = (
                self.fetcher[request] for request in self._plan(epoch, first_step, self.dealing.steps)
            )
        else:
            self._requests.plan = lambda: self._plan(epoch, first_step, self.dealing.steps)
            batches = worker.start(self._loader)
        for step in range(first_step, self.dealing.steps):
            window_size = len(self.dealing.window(step))
            sizes = self.microbatch_sizes(window_size)
            yield Share(window_size, sizes, (next(batches) for _ in sizes))

    def close(self) -> None:
        """End the workers."""
        if self._loader is not None:
            worker.close(self._loader)

    def first_microbatch(self, epoch: int, step: int) -> Any:
        """The first microbatch of this rank at a step, read here; None where it has no sample."""
        self._set_epoch(epoch)
        request = next(self._plan(epoch, step, step + 1), None)
        return self.fetcher[request] if request else None

    def microbatch_sizes(self, window_size: int) -> tuple[int, ...]:
        """How this rank's share of a window is cut."""
        return cut_evenly(
            share_size(window_size, self._world.rank, self._world.world_size), self._max_microbatch_size
        )

    def _set_epoch(self, epoch: int) -> None:
        """Tell the dataset and the order, before anything is read; once for each epoch."""
        self.fetcher.set_epoch(epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            if hasattr(self.order, "set_epoch"):
                self.order.set_epoch(epoch)

    def _plan(self, epoch: int, first_step: int, last_step: int) -> Iterator[Request]:
        """The requests of some steps, in order; indices are computed in blocks of many steps."""
        steps_per_block = max(1, _BLOCK // self.dealing.global_batch_size)
        for first in range(first_step, last_step, steps_per_block):
            for share in self._shares(epoch, first, min(first + steps_per_block, last_step)):
                start = 0
                for size in cut_evenly(len(share), self._max_microbatch_size):
                    yield Request(epoch, share[start : start + size])
                    start += size

    def _shares(self, epoch: int, first_step: int, last_step: int) -> Iterator[NDArray[np.int64]]:
        """This rank's indices at each of the steps."""
        windows = [self.dealing.window(step) for step in range(first_step, last_step)]
        start = windows[0].start
        indices = self.order.indices(epoch, start, windows[-1].stop)
        for window in windows:
            share = indices[window.start - start : window.stop - start]
            yield np.ascontiguousarray(share[self._world.rank :: self._world.world_size], dtype=np.int64)


class NaturalOrder:
    """0, 1, 2, ...: the order of evaluation."""

    def __init__(self, length: int) -> None:
        self.samples_per_epoch = length

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return np.arange(start, stop, dtype=np.int64)


class _Requests:
    """The sampler of a long-lived DataLoader: what it gives is set anew before every epoch."""

    plan: Callable[[], Iterator[Request]]

    def __iter__(self) -> Iterator[Request]:
        return self.plan()


def _worker_loader(
    fetcher: Fetcher, requests: _Requests, world: World, settings: LoaderSettings, seed: int
) -> DataLoader[Any]:
    """A DataLoader that only carries requests to workers and batches back."""
    pin = world.device.type == "cuda" if settings.pin_memory == "auto" else settings.pin_memory
    return DataLoader(
        worker.Sender(fetcher),  # type: ignore[arg-type]  # keyed by Request, and never asked for its length
        batch_size=None,
        sampler=requests,
        collate_fn=_as_it_is,
        num_workers=settings.workers,
        prefetch_factor=settings.prefetch,
        persistent_workers=True,
        pin_memory=pin,
        multiprocessing_context=settings.start_method,
        worker_init_fn=worker.prepare,
        generator=torch.Generator().manual_seed(seed),  # its own: the training stream stays untouched
    )


def _as_it_is(batch: Any) -> Any:
    return batch
