"""Datasets and samplers that each break one promise, in the way that such components do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from pipeline import register

RANK = int(os.environ.get("RANK", "0"))


class Points:
    """Inputs (4,) and a label, the same in every process."""

    def __init__(self, length: int = 40) -> None:
        generator = torch.Generator().manual_seed(length)
        self.inputs = torch.randn(length, 4, generator=generator)
        self.labels = torch.randint(3, (length,), generator=generator)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.labels[index]


register("dataset", "points")(Points)


@register("dataset", "jittered")
class Jittered(Points):
    """Draws from numpy's global generator, which the engine seeds if it may."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index] + float(np.random.rand()), self.labels[index]


@register("dataset", "own_generator")
class OwnGenerator(Points):
    """Draws from a generator of its own: seeded, but a sample depends on what was read before."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index] + float(self.generator.random()), self.labels[index]


@register("dataset", "another_each_time")
class AnotherEachTime(Points):
    """Is made from the system's entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = self.inputs + float(np.random.default_rng().random())


@register("dataset", "hashed")
class Hashed(Points):
    """Numbers its classes in the order of a set."""

    def __init__(self) -> None:
        super().__init__()
        self.labels = torch.tensor(list({"ape", "bee", "cat"}).index("ape")).expand(len(self.labels)).clone()


@register("dataset", "by_rank")
class ByRank(Points):
    """Reads another file on every rank, as it were."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index] + RANK, self.labels[index]


@register("dataset", "by_worker")
class ByWorker(Points):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index] + (0 if get_worker_info() is None else 1), self.labels[index]


@register("dataset", "not_to_be_sent")
class NotToBeSent(Points):
    """Its batches cannot leave a worker process."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if get_worker_info() is not None:
            raise RuntimeError("the file is open in another process")
        return super().__getitem__(index)


class Stream:
    """40 points, split by taking every count-th."""

    def __init__(self) -> None:
        self.points = Points()

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.shard(0, 1)

    def shard(self, index: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        return (self.points[at] for at in range(index, 40, count))


register("dataset", "stream")(Stream)


@register("dataset", "unsplit_stream")
class UnsplitStream:
    """40 points, one after the other and no other way."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return Stream().shard(0, 1)


@register("dataset", "overlapping_stream")
class OverlappingStream(Stream):
    """Every shard begins with the first sample."""

    def shard(self, index: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        return (self.points[at if at >= count else 0] for at in range(index, 40, count))


class Resumable:
    """A shard that says where it stands."""

    def __init__(self, points: Points, indices: list[int]) -> None:
        self.points = points
        self.indices = indices
        self.at = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while self.at < len(self.indices):
            self.at += 1
            yield self.points[self.indices[self.at - 1]]

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Forgetful(Resumable):
    """Takes its state back a sample too far."""

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"] + 1


@register("dataset", "forgetful_stream")
class ForgetfulStream(Stream):
    def shard(self, index: int, count: int) -> Forgetful:
        return Forgetful(self.points, list(range(index, 40, count)))


class InOrder:
    def __init__(self, dataset) -> None:
        self.samples_per_epoch = len(dataset)


@register("sampler", "unseeded")
class Unseeded(InOrder):
    """The same all the time in one process, and another in the next."""

    def __init__(self, dataset) -> None:
        super().__init__(dataset)
        self.order = np.random.default_rng().permutation(len(dataset))

    def indices(self, epoch: int, start: int, stop: int) -> np.ndarray:
        return self.order[start:stop]


@register("sampler", "ranked")
class Ranked(InOrder):
    """Shards by itself what the engine shards again."""

    def indices(self, epoch: int, start: int, stop: int) -> np.ndarray:
        return (np.arange(start, stop) + RANK) % self.samples_per_epoch


@register("sampler", "drawn_on_the_way")
class DrawnOnTheWay(InOrder):
    """Depends on how often it was asked."""

    def __init__(self, dataset) -> None:
        super().__init__(dataset)
        self.generator = np.random.default_rng(0)

    def indices(self, epoch: int, start: int, stop: int) -> np.ndarray:
        return self.generator.integers(self.samples_per_epoch, size=stop - start)
