"""All probes of a config, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from pipeline.cli.output import say
from pipeline.cli.verification import neutral
from pipeline.cli.verification.probes import Probed, Trouble, datasets, gist, loss, metrics, orders, streams
from pipeline.engine import random_state
from pipeline.engine.builder import Builder
from pipeline.engine.data import build_dataset, is_stream
from pipeline.engine.experiment import Experiment
from pipeline.engine.fetch import Fetcher
from pipeline.engine.modules import build_modules
from pipeline.engine.position import Position
from pipeline.engine.step_module import StepModule
from pipeline.engine.world import World
from pipeline.errors import PipelineError


def probe(experiment: Experiment, world: World, position: Position, file: Path, *, double: bool) -> None:
    """Examine datasets, sampler, objective and metrics, and write what was found.

    Args:
        double: build model and objective in float64.
    """
    builder = Builder(experiment.seed, position)
    built = {name: build_dataset(builder, part) for name, part in experiment.datasets.items()}
    fetchers = {
        name: datasets.fetcher_of(experiment, name, one) for name, one in built.items() if not is_stream(one)
    }
    samples = {
        f"dataset.{name}": partial(datasets.trouble, experiment, world, one) for name, one in fetchers.items()
    }
    shards = {
        f"dataset.{name}": partial(streams.trouble, one)
        for name, one in built.items()
        if name not in fetchers
    }
    order = {"sampler": partial(orders.trouble, builder, experiment, built["train"])}
    found = Probed(
        items=_troubles(position, samples),
        streams=_troubles(position, shards),
        orders=_troubles(position, order if "train" in fetchers else {}),
    )
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    modules = _modules(builder, experiment, world, fetchers, double=double)
    random_state.seed_all(experiment.seed, "probe")
    position.set_phase("objective")
    if "train" in fetchers:
        additivity = loss.additivity(modules, fetchers["train"], double=double)
        found = replace(found, mean_objective=additivity == "mean", in_batch=additivity == "other")
    evaluated = next((one for name, one in fetchers.items() if name != "train"), None)
    if evaluated is not None:
        outcomes = loss.outcomes(modules, evaluated)
        parts = experiment.metrics.values()
        looks = {part.key: partial(metrics.trouble, builder, part, outcomes, world) for part in parts}
        found = replace(found, metrics=_troubles(position, looks))
    found.write(file)


def _troubles(position: Position, looks: Mapping[str, Callable[[], Trouble | None]]) -> dict[str, Trouble]:
    """What is found, by the components' keys; one that cannot be looked at is in trouble itself."""
    found = {}
    for key, look in looks.items():
        position.set_phase(key)
        try:
            trouble = look()
        except PipelineError as error:
            trouble = Trouble(str(error))
        except Exception as error:  # noqa: BLE001 - a component may raise anything, and it is told
            trouble = Trouble(f"looking at it alone fails: {type(error).__name__}: {gist(error)}")
        if trouble:
            found[key] = trouble
    return found


def _modules(
    builder: Builder, experiment: Experiment, world: World, fetchers: Mapping[str, Fetcher], *, double: bool
) -> StepModule:
    plain = replace(experiment, train=replace(experiment.train, precision="fp32", compile=False))
    modules = build_modules(builder, plain, world, say)
    neutral.neutralise(modules)
    if double:
        neutral.take_double(modules.model, fetchers.values())
    return modules
