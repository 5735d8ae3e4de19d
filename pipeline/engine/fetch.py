"""Reading one microbatch from a dataset: by batch where it can, with a seed per sample where it matters."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from pipeline.api.seeds import derive_seed
from pipeline.engine import random_state
from pipeline.engine.epochs import tell_epoch
from pipeline.engine.rows import rows

_SHOWN = 16  # indices told of in an error


@dataclass(frozen=True, slots=True)
class Request:
    """One microbatch to read; it carries the epoch, so that persistent workers hear of it too."""

    epoch: int
    indices: NDArray[np.int64]

    def __str__(self) -> str:
        indices = self.indices.tolist()
        more = f" and {len(indices) - _SHOWN} more" if len(indices) > _SHOWN else ""
        return f"the samples {indices[:_SHOWN]}{more}"


class Reading:
    """A dataset as it is read here: how its samples are collated, and the epoch that it was told."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.collate: Callable[[Any], Any] = getattr(dataset, "collate_fn", default_collate)
        self._epoch: int | None = None

    def set_epoch(self, epoch: int) -> None:
        """Tell the dataset of an epoch, once, before its first sample is read."""
        if epoch != self._epoch:
            self._epoch = epoch
            tell_epoch(self.dataset, epoch, inside=("dataset", "datasets"))


class Fetcher(Reading):
    """Turns requests into batches; also the dataset that a DataLoader's workers hold a copy of.

    Args:
        dataset: map-style; ``__getitems__(indices)``, also with ``seeds=``, and ``collate_fn`` are used
            where it has them.
        seed: the root of this dataset's sample seeds.
        sample_seeds: seed torch, numpy and random by (seed, epoch, index) before every sample;
            "auto" where samples are read one by one.
    """

    def __init__(self, dataset: Any, *, seed: int, sample_seeds: bool | Literal["auto"]) -> None:
        super().__init__(dataset)
        self._seed = seed
        self._by_batch = callable(getattr(dataset, "__getitems__", None))
        self._takes_seeds = self._by_batch and "seeds" in inspect.signature(dataset.__getitems__).parameters
        self.tensors: Sequence[Tensor] | None = dataset.tensors if type(dataset) is TensorDataset else None
        """Whose rows the samples are, where the dataset is nothing else."""
        self._seeded = sample_seeds is True or (
            sample_seeds == "auto" and not self._by_batch and self.tensors is None
        )

    def __getitem__(self, request: Request) -> Any:
        """The collated batch of a request."""
        self.set_epoch(request.epoch)
        if self.tensors is not None:
            return rows(self.tensors, request.indices)
        indices = request.indices.tolist()
        if self._takes_seeds:
            seeds = [self._sample_seed(request.epoch, index) for index in indices]
            return self.collate(self.dataset.__getitems__(indices, seeds=seeds))
        if self._seeded:
            with random_state.preserved(on_device=False):
                return self.collate(self._read_seeded(request.epoch, indices))
        if self._by_batch:
            return self.collate(self.dataset.__getitems__(indices))
        return self.collate(self._read(indices))

    def _read(self, indices: Sequence[int]) -> list[Any]:
        samples = []
        for index in indices:
            try:
                samples.append(self.dataset[index])
            except Exception as error:
                BaseException.add_note(error, f"while reading sample {index}")
                raise
        return samples

    def _read_seeded(self, epoch: int, indices: Sequence[int]) -> list[Any]:
        samples = []
        for index in indices:
            seed_sample(self._sample_seed(epoch, index))
            samples += self._read([index])
        return samples

    def _sample_seed(self, epoch: int, index: int) -> int:
        return derive_seed(self._seed, epoch, index)


def seed_sample(seed: int) -> None:
    """Seed the CPU generators of torch, numpy and random for what draws in reading one sample."""
    # The generator itself: torch.manual_seed would seed every device, at a hundred times the cost.
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)
