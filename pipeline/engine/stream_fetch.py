"""Reading a shard of an iterable dataset, microbatch by microbatch."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pipeline.api.seeds import derive_seed
from pipeline.engine import random_state
from pipeline.engine.fetch import Reading, seed_sample


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading a shard begins."""

    samples: int = 0
    """Behind so many."""
    state: Any = None
    """What the shard said of itself there; without it they are read again and thrown away."""


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """The next microbatch of a shard."""

    epoch: int
    shard: int
    """Among all shards of all ranks."""
    size: int
    """Samples wanted; a shard's last microbatch may have fewer."""
    start: Start | None
    """Given with the first request for a shard, which opens it."""

    def __str__(self) -> str:
        return f"shard {self.shard}"


class Piece(NamedTuple):
    """A microbatch of a shard; a tuple, which torch can pin."""

    shard: int
    size: int
    """Samples in it; 0 behind the shard's end."""
    batch: Any
    state: Any
    """The shard's state behind it; None where the shard has none."""


class StreamFetcher(Reading):
    """Turns requests into pieces; also the dataset that a DataLoader's workers hold a copy of.

    It reads one shard at a time, since each worker has one.

    Args:
        dataset: a Stream; where there is one shard only, any iterable.
        shards: how many there are, over all ranks and workers.
        seed: the root of this dataset's sample seeds.
        sample_seeds: unless False, seed torch, numpy and random before every sample by (seed, epoch,
            shard, place in it).
    """

    def __init__(self, dataset: Any, *, shards: int, seed: int, sample_seeds: bool | Literal["auto"]) -> None:
        super().__init__(dataset)
        self._shards = shards
        self._seed = seed
        self._seeded = sample_seeds is not False
        self._items: Iterable[Any] = ()
        self._iterator: Iterator[Any] = iter(())
        self._position = 0

    def __getitem__(self, request: ShardRequest) -> Piece:
        """The next piece of a shard.

        Raises:
            whatever the dataset raises, with a note that says which sample was read.
        """
        self.set_epoch(request.epoch)
        with random_state.preserved(on_device=False):
            if request.start is not None:
                self._open(request, request.start)
            samples = self._read(request, request.size)
            batch = self.collate(samples) if samples else None
            return Piece(request.shard, len(samples), batch, self._state())

    def _open(self, request: ShardRequest, start: Start) -> None:
        seed_sample(derive_seed(self._seed, "open", request.epoch, request.shard))
        if can_shard(self.dataset):
            self._items = self.dataset.shard(index=request.shard, count=self._shards)
        else:
            self._items = self.dataset
        self._position = 0
        if start.state is not None:
            self._items.load_state_dict(start.state)  # type: ignore[attr-defined]  # it gave that state
            self._position = start.samples
        self._iterator = iter(self._items)
        while self._position < start.samples and self._read(request, 1):
            pass

    def _read(self, request: ShardRequest, size: int) -> list[Any]:
        samples: list[Any] = []
        while len(samples) < size:
            if self._seeded:
                seed_sample(derive_seed(self._seed, request.epoch, request.shard, self._position))
            try:
                samples.append(next(self._iterator))
            except StopIteration:
                break
            except Exception as error:
                BaseException.add_note(
                    error, f"while reading sample {self._position} of shard {request.shard}"
                )
                raise
            self._position += 1
        return samples

    def _state(self) -> Any:
        """A copy: what is read ahead would change it."""
        if not hasattr(self._items, "state_dict"):
            return None
        return copy.deepcopy(self._items.state_dict())


def can_shard(dataset: Any) -> bool:
    """Whether it is a ``pipeline.api.stream.Stream``; a ``shard`` with other parameters is something else."""
    shard = getattr(dataset, "shard", None)
    return callable(shard) and {"index", "count"} <= inspect.signature(shard).parameters.keys()
