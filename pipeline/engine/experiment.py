"""What the engine is given: bound factories and settings, no names to look up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.api.hook import Ranks
from pipeline.api.kinds import Kind
from pipeline.api.settings import (
    DistributedSettings,
    GroupSettings,
    LoaderSettings,
    TrainSettings,
    WeightsSettings,
)


@dataclass(frozen=True)
class Part:
    """One component, ready to be built."""

    kind: Kind
    key: str
    """Where it stands in the config: ``hooks.ema``."""
    type: str
    place: str
    """The line that names it: ``pipeline.toml:12:1``."""
    build: Callable[..., Any]
    """Called as the kind is called (api.kinds); gives the component, its contract checked."""
    takes: frozenset[str] = frozenset()
    """What the engine passes by name because the component's signature has it, as ``total_steps``."""

    def __str__(self) -> str:
        return f"{self.kind} {self.type!r} ({self.key}, {self.place})"


@dataclass(frozen=True)
class Experiment:
    """A run as the engine takes it."""

    name: str
    seed: int
    model: Part
    weights: WeightsSettings | None
    freeze: tuple[str, ...]
    datasets: Mapping[str, Part]
    objective: Part
    optimizer: Part
    groups: tuple[GroupSettings, ...]
    scheduler: Part | None
    scheduler_interval: str
    scheduler_monitor: str | None
    sampler: Part
    metrics: Mapping[str, Part]
    hooks: Mapping[str, Part]
    hook_ranks: Mapping[str, Ranks]
    train: TrainSettings
    loader: LoaderSettings
    distributed: DistributedSettings

    def parts(self) -> tuple[Part, ...]:
        """All components of the run."""
        scheduler = (self.scheduler,) if self.scheduler else ()
        return (
            self.model,
            *self.datasets.values(),
            self.objective,
            self.optimizer,
            *scheduler,
            self.sampler,
            *self.metrics.values(),
            *self.hooks.values(),
        )
