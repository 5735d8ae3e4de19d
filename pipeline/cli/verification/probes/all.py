"""All probes of a config, in order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from pipeline.cli.output import say
from pipeline.cli.verification import neutral
from pipeline.cli.verification.probes import Probed, datasets, loss, metrics, orders, streams
from pipeline.engine import random_state
from pipeline.engine.builder import Builder
from pipeline.engine.data import build_dataset, is_stream
from pipeline.engine.experiment import Experiment
from pipeline.engine.modules import build_modules
from pipeline.engine.position import Position
from pipeline.engine.world import World


def probe(experiment: Experiment, world: World, position: Position, file: Path, *, double: bool) -> None:
    """Examine datasets, objective and metrics, and write what was found.

    Args:
        double: build model and objective in float64.
    """
    builder = Builder(experiment.seed, position)
    built = {name: build_dataset(builder, part) for name, part in experiment.datasets.items()}
    indexed = {name: one for name, one in built.items() if not is_stream(one)}
    fetchers = {name: datasets.fetcher_of(experiment, name, one) for name, one in indexed.items()}
    found = {name: datasets.trouble(experiment, world, position, name, one) for name, one in fetchers.items()}
    shards = {}
    for name in built.keys() - indexed.keys():
        position.set_phase(f"dataset.{name}")
        shards[name] = streams.trouble(built[name])
    order = orders.trouble(builder, experiment, built["train"]) if "train" in indexed else None
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    modules = build_modules(builder, _plain(experiment), world, say)
    neutral.neutralise(modules)
    if double:
        neutral.take_double(modules.model, fetchers.values())
    random_state.seed_all(experiment.seed, "probe")
    position.set_phase("objective")
    additivity = loss.additivity(modules, fetchers["train"], double=double) if "train" in fetchers else None
    evaluation = next((name for name in fetchers if name != "train"), None)
    joined = {}
    if evaluation is not None:
        outcomes = loss.outcomes(modules, fetchers[evaluation])
        for part in experiment.metrics.values():
            joined[part.key] = metrics.trouble(builder, part, outcomes, world)
    Probed(
        items={f"dataset.{name}": one for name, one in found.items() if one},
        streams={f"dataset.{name}": one for name, one in shards.items() if one},
        order=order,
        metrics={key: one for key, one in joined.items() if one},
        mean_objective=additivity == "mean",
        in_batch=additivity == "other",
    ).write(file)


def _plain(experiment: Experiment) -> Experiment:
    return replace(experiment, train=replace(experiment.train, precision="fp32", compile=False))
