"""Where requests are read: in this process, or by workers that live as long as the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from pipeline.api.settings import LoaderSettings
from pipeline.engine import worker
from pipeline.engine.fetch import Fetcher
from pipeline.engine.parcel import SMALL
from pipeline.engine.rows import may_share_copies, rows_of_each
from pipeline.engine.world import World

Plan = Callable[[], Iterator[Any]]
"""Gives the requests of one pass, in order."""


class Source(Protocol):
    """Answers requests in order."""

    def read(self, plan: Plan) -> Iterator[Any]:
        """The answers, one for each request; they are read as they are asked for, or ahead."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


def source_of(fetcher: worker.Fetches, world: World, settings: LoaderSettings, seed: int) -> Source:
    """A source as the settings want it.

    Args:
        seed: of the workers' own random streams.
    """
    if settings.workers:
        return Workers(fetcher, world, settings, seed)
    if isinstance(fetcher, Fetcher) and fetcher.tensors is not None and may_share_copies(fetcher.tensors):
        return InMemory(fetcher.tensors)
    return Here(fetcher)


class Here:
    """Reads in the training process."""

    def __init__(self, fetcher: worker.Fetches) -> None:
        self._fetcher = fetcher

    def read(self, plan: Plan) -> Iterator[Any]:
        return (self._fetcher[request] for request in plan())

    def close(self) -> None:
        return None


class InMemory:
    """Takes the rows of tensors, some steps ahead, as workers would: nothing of a sample is computed."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors

    def read(self, plan: Plan) -> Iterator[Any]:
        return rows_of_each(self._tensors, (request.indices for request in plan()))

    def close(self) -> None:
        return None


class Workers:
    """A DataLoader that only carries requests to workers, in turn, and answers back."""

    def __init__(self, fetcher: worker.Fetches, world: World, settings: LoaderSettings, seed: int) -> None:
        pin = world.device.type == "cuda" if settings.pin_memory == "auto" else settings.pin_memory
        # torch's pinning thread would wait for ever for the rest of a batch whose worker was killed.
        copied = 0 if pin else SMALL
        self._requests = _Requests()
        self._loader: DataLoader[Any] = DataLoader(
            worker.Sender(fetcher, copied),  # type: ignore[arg-type]  # keyed by requests, and never asked for its length
            batch_size=None,
            sampler=self._requests,
            collate_fn=_as_it_is,
            num_workers=settings.workers,
            prefetch_factor=settings.prefetch,
            persistent_workers=True,
            pin_memory=pin,
            multiprocessing_context=settings.start_method,
            worker_init_fn=worker.prepare,
            generator=torch.Generator().manual_seed(seed),  # its own: the training stream stays untouched
        )

    def read(self, plan: Plan) -> Iterator[Any]:
        self._requests.plan = plan
        return worker.start(self._loader)

    def close(self) -> None:
        worker.close(self._loader)


class _Requests:
    """The sampler of a long-lived DataLoader: what it gives is set anew before every pass."""

    plan: Plan

    def __iter__(self) -> Iterator[Any]:
        return self.plan()


def _as_it_is(batch: Any) -> Any:
    return batch
