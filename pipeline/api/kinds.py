"""The eight kinds of components: their entry-point groups and how the engine calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a component is, which fixes how it is called and what it must give."""

    MODEL = "model"
    DATASET = "dataset"
    OBJECTIVE = "objective"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SAMPLER = "sampler"
    METRIC = "metric"
    HOOK = "hook"


@dataclass(frozen=True)
class KindRules:
    """The calling convention of a kind."""

    group: str
    """The entry-point group, as ``pipeline.models``."""
    positional: tuple[str, ...] = ()
    """What the engine passes first, by position; never part of the component's table."""
    by_name: tuple[str, ...] = ()
    """What the engine passes by keyword where the signature has it; never part of the table."""
    engine_keys: tuple[str, ...] = ()
    """Keys of the component's table that are the engine's and do not reach the component."""


RULES: Mapping[Kind, KindRules] = {
    Kind.MODEL: KindRules("pipeline.models", engine_keys=("weights", "freeze")),
    Kind.DATASET: KindRules("pipeline.datasets"),
    Kind.OBJECTIVE: KindRules("pipeline.objectives"),
    Kind.OPTIMIZER: KindRules("pipeline.optimizers", positional=("params",), engine_keys=("groups",)),
    Kind.SCHEDULER: KindRules(
        "pipeline.schedulers",
        positional=("optimizer",),
        by_name=("total_steps", "steps_per_epoch"),
        engine_keys=("interval", "monitor"),
    ),
    Kind.SAMPLER: KindRules("pipeline.samplers", positional=("dataset",), by_name=("seed",)),
    Kind.METRIC: KindRules("pipeline.metrics"),
    Kind.HOOK: KindRules("pipeline.hooks", engine_keys=("ranks",)),
}

DEFAULT_SAMPLER = "shuffle"
"""The order of a config that names none."""
