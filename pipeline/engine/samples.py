"""A dataset as a rehearsal sees it: its length, and batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.api.seeds import derive_seed
from pipeline.engine.builder import Builder
from pipeline.engine.data import build_dataset, is_stream, shards_of
from pipeline.engine.experiment import Experiment
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.stream_fetch import ShardRequest, Start, StreamFetcher

Declaration = Callable[[int], tuple[int, Any]]
"""From a batch size to the dataset's length and a batch of that size, its tensors on the meta device."""


@dataclass(frozen=True)
class Samples:
    """Where batches come from."""

    source: Sized | None
    """The dataset itself, or what has its length where it only declares its shapes; None where only
    iterating it tells."""
    read: Callable[[int], Any]
    """The first so many samples, collated."""

    def batch(self, size: int) -> Any:
        """The first ``size`` samples, or all where there are fewer."""
        return self.read(size if self.source is None else min(size, len(self.source)))


def open_samples(
    builder: Builder, experiment: Experiment, name: str, declaration: Declaration | None, world_size: int
) -> Samples:
    """Build a dataset, or take its declared shapes, without building it.

    Raises:
        ComponentError: if it cannot be dealt; and whatever its constructor raises.
    """
    part = experiment.datasets[name]
    if declaration is not None:
        builder.at_work(part.key)
        length, _ = declaration(1)
        return Samples(range(length), lambda size: declaration(size)[1])
    dataset = build_dataset(builder, part)
    seed = derive_seed(experiment.seed, "samples", name)
    if is_stream(dataset):
        shards_of(dataset, part, world_size, experiment.loader.workers)
        stream = StreamFetcher(dataset, shards=1, seed=seed, sample_seeds=experiment.loader.sample_seeds)
        return Samples(None, lambda size: stream[ShardRequest(0, 0, size, Start())].batch)
    fetcher = Fetcher(dataset, seed=seed, sample_seeds=experiment.loader.sample_seeds)
    return Samples(dataset, lambda size: fetcher[Request(0, np.arange(size))])
