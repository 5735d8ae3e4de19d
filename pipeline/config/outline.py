"""The outline of a config: its top-level keys, and which of them name components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.api.kinds import DEFAULT_SAMPLER, RULES, Kind
from pipeline.api.settings import DistributedSettings, LoaderSettings, TrainSettings
from pipeline.config.keys import KeyPath

SINGLE: Mapping[str, Kind] = {
    "model": Kind.MODEL,
    "objective": Kind.OBJECTIVE,
    "optimizer": Kind.OPTIMIZER,
    "scheduler": Kind.SCHEDULER,
    "sampler": Kind.SAMPLER,
}
"""Tables that are one component each."""

NAMED: Mapping[str, Kind] = {"dataset": Kind.DATASET, "metrics": Kind.METRIC, "hooks": Kind.HOOK}
"""Tables whose members are components, each under a name of the user's."""

SETTINGS: Mapping[str, type[TrainSettings] | type[LoaderSettings] | type[DistributedSettings]] = {
    "train": TrainSettings,
    "loader": LoaderSettings,
    "distributed": DistributedSettings,
}
"""Tables that are the engine's own."""

TOP_LEVEL = (
    "name",
    "seed",
    "extends",
    "unset",
    "set",
    "components",
    "vars",
    "model",
    "dataset",
    "objective",
    "optimizer",
    "scheduler",
    "sampler",
    "metrics",
    "train",
    "loader",
    "distributed",
    "hooks",
)
"""Every top-level key, in the canonical order."""


def component_tables(tree: Mapping[str, Any]) -> Iterator[tuple[Kind, KeyPath, Mapping[str, Any]]]:
    """Every component's table: its kind, path and content; what is no table is passed over."""
    for section in TOP_LEVEL:
        table = tree.get(section)
        if not isinstance(table, Mapping):
            continue
        if section in SINGLE:
            yield SINGLE[section], (section,), table
        elif section in NAMED:
            for name, member in table.items():
                if isinstance(member, Mapping):
                    yield NAMED[section], (section, name), member


def default_type(kind: Kind, name: str) -> str | None:
    """The ``type`` of a table that does not say one: a metric's and a hook's is its own key."""
    if kind in (Kind.METRIC, Kind.HOOK):
        return name
    return DEFAULT_SAMPLER if kind is Kind.SAMPLER else None


def own_keys(kind: Kind) -> tuple[str, ...]:
    """The keys of a component's table that do not reach the component."""
    return ("type", *RULES[kind].engine_keys)
