"""Datasets with indices: whether a sample is the same whenever and wherever it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.api.seeds import derive_seed
from pipeline.cli.verification import generators, items
from pipeline.cli.verification.attributes import attributes_of
from pipeline.cli.verification.digest import digest
from pipeline.cli.verification.probes import Trouble, gist
from pipeline.engine.experiment import Experiment
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.sources import source_of
from pipeline.engine.world import World


def fetcher_of(experiment: Experiment, name: str, dataset: Any) -> Fetcher:
    """What reads a dataset in the run."""
    seed = derive_seed(experiment.seed, "samples", name)
    return Fetcher(dataset, seed=seed, sample_seeds=experiment.loader.sample_seeds)


def trouble(experiment: Experiment, world: World, fetcher: Fetcher) -> Trouble | None:
    """Read some samples, again in the reverse order, and by a worker; say what is not the same."""
    indices = items.first(len(fetcher.dataset))
    before, drawn_from = attributes_of(fetcher.dataset), generators.states()
    once = items.digests(fetcher, indices)
    drawn = generators.moved(drawn_from, generators.states())
    changed = [path for path, text in attributes_of(fetcher.dataset).items() if before.get(path) != text]
    again = items.digests(fetcher, indices[::-1])[::-1]
    cause = _Cause(type(fetcher.dataset).__name__, drawn, changed)
    if differing := _differing(indices, once, again):
        return cause.trouble(f"its sample {differing[0]} is another when it is read again")
    try:
        by_worker = list(_by_worker(experiment, world, fetcher, indices))
    except Exception as error:  # noqa: BLE001 - a dataset may raise anything, and it is told
        remedy = "open files and connections anew in every process, and give what can be pickled"
        return Trouble(f"a worker process cannot read it: {gist(error)}", remedy)
    if differing := _differing(indices, once, by_worker):
        return cause.trouble(f"its sample {differing[0]} is another when a worker process reads it")
    return None


def _differing(indices: list[int], one: list[str], two: list[str]) -> list[int]:
    return [index for index, a, b in zip(indices, one, two, strict=True) if a != b]


def _by_worker(experiment: Experiment, world: World, fetcher: Fetcher, indices: list[int]) -> Iterator[str]:
    """The digest of every sample as a worker reads it, which has read none before."""
    settings = replace(experiment.loader, workers=1, pin_memory=False)
    source = source_of(fetcher, world, settings, derive_seed(experiment.seed, "verify"))
    requests = [Request(0, np.array([index], dtype=np.int64)) for index in indices]
    try:
        for batch in source.read(lambda: iter(requests)):
            yield digest(batch)
    finally:
        source.close()


class _Cause:
    """Why samples change, as far as it can be seen from outside."""

    def __init__(self, dataset: str, drawn: list[str], changed: list[str]) -> None:
        self._dataset = dataset
        self._drawn = drawn
        self._changed = changed

    def trouble(self, message: str) -> Trouble:
        if self._drawn:
            whose = " and ".join(f"{name}'s" for name in self._drawn)
            return Trouble(
                f"{message}: {self._dataset} draws from {whose} global generator in reading a sample, and "
                "nothing seeds it there",
                "set loader.sample_seeds = true, or let __getitems__ take seeds",
            )
        if self._changed:
            return Trouble(f"{message}: reading changes its attribute {self._changed[0]}")
        return Trouble(message)
