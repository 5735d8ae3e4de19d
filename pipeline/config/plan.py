"""What a config means once it is validated: plain data that names components but imports none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pipeline.api.kinds import Kind
from pipeline.api.settings import (
    DistributedSettings,
    GroupSettings,
    LoaderSettings,
    TrainSettings,
    WeightsSettings,
)
from pipeline.config.keys import KeyPath


@dataclass(frozen=True)
class Place:
    """Where a value was written: a file with line and column, or an option of the command line."""

    file: str
    """The file as the user named it, or ``--set`` / ``--unset``."""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class ComponentPlan:
    """One component of the run: its table, validated against its own signature."""

    kind: Kind
    key: str
    """Where it stands in the config: ``model``, ``dataset.train``, ``hooks.ema``."""
    type: str
    """The name as written, qualified or not: ``mlp``, ``acme-vision/resnet``."""
    arguments: Mapping[str, Any]
    """What the component is called with: python values, defaults filled in, without engine keys.
    A nested component stands as a ComponentPlan."""
    place: Place

    @property
    def name(self) -> str:
        """The last part of the key: a metric's or hook's own name."""
        return self.key.rpartition(".")[2]


@dataclass(frozen=True)
class Plan:
    """A whole run, as data."""

    name: str
    seed: int | None
    """None: to be drawn by rank 0."""
    model: ComponentPlan
    weights: WeightsSettings | None
    freeze: tuple[str, ...]
    datasets: Mapping[str, ComponentPlan]
    """In the file's order; ``train`` is trained on, every other one is evaluated."""
    objective: ComponentPlan
    optimizer: ComponentPlan
    groups: tuple[GroupSettings, ...]
    scheduler: ComponentPlan | None
    scheduler_interval: str
    """``step`` or ``epoch``."""
    scheduler_monitor: str | None
    sampler: ComponentPlan
    metrics: Mapping[str, ComponentPlan]
    hooks: Mapping[str, ComponentPlan]
    hook_ranks: Mapping[str, str]
    """hooks.*.ranks, where the table sets it."""
    train: TrainSettings
    loader: LoaderSettings
    distributed: DistributedSettings
    components: tuple[Path, ...]
    """Local files that register components, absolute."""

    def parts(self) -> tuple[ComponentPlan, ...]:
        """All components of the run, in the order in which they are built."""
        optional = (self.scheduler,) if self.scheduler else ()
        return (
            self.model,
            *self.datasets.values(),
            self.objective,
            self.optimizer,
            *optional,
            self.sampler,
            *self.metrics.values(),
            *self.hooks.values(),
        )


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a component's table, for the config to give a place."""

    path: tuple[str | int, ...]
    """Relative to the component's table; empty: the table as a whole."""
    message: str
    expected: str = ""
    nearest: str = ""
    detail: str = ""
    is_unknown_key: bool = False
    """Whether the table has no such key, so that it may belong into another one."""
    is_unknown_name: bool = False
    """Whether nothing that is installed or registered has the ``type``."""


@dataclass(frozen=True)
class CheckedTable:
    """A component's table after validation against its schema."""

    arguments: Mapping[str, Any]
    """Python values with defaults filled in; what the component is called with."""
    plain: Mapping[str, Any]
    """The same as TOML values, in the signature's order; None defaults left out."""
    paths: frozenset[KeyPath] = frozenset()
    """Values that are file paths: absolute in ``arguments``, no part of the fingerprint."""
    secrets: frozenset[KeyPath] = frozenset()
    """Values that the schema marks secret, and arguments that may hold one."""
    choices: frozenset[KeyPath] = frozenset()
    """Texts that are one of a list in the schema."""
    measured: frozenset[KeyPath] = frozenset()
    """Values that name a metric of the run."""
    shadowed: frozenset[str] = frozenset()
    """Arguments that no table can set, since the engine has a key of that name in it."""
    faults: tuple[Fault, ...] = ()


class SchemaSource(Protocol):
    """What the config asks about components; the command line hands in the registry's."""

    def accepts(self, kind: Kind, type_name: str) -> frozenset[str] | None:
        """The arguments that a component takes; None where it is unknown or takes any."""
        ...

    def nested(self, kind: Kind, type_name: str) -> Mapping[str, Kind]:
        """The arguments that take a component, in a list or table too, each with its kind."""
        ...

    def check(
        self,
        kind: Kind,
        type_name: str,
        table: Mapping[str, Any],
        *,
        folders: Mapping[str, Path],
        only: bool = False,
    ) -> CheckedTable:
        """Validate a component's table, without ``type`` and the engine's keys.

        Unknown names, broken packages and wrong arguments come back as faults, all at once; the
        fault of an unknown ``type`` has the path ``("type",)``.

        Args:
            folders: for each argument, the folder that relative paths in it are relative to.
            only: validate the given arguments alone: no defaults, none missing (optimizer.groups).
        """
        ...


@dataclass(frozen=True)
class Source:
    """One file that went into a config, as the user wrote it."""

    path: Path
    text: bytes = field(repr=False)
