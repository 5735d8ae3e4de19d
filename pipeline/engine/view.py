"""The view of the run that hooks get, and what they ask for through it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from torch import Tensor, nn
from torch.optim import Optimizer

from pipeline.api.settings import TrainSettings
from pipeline.engine.run_state import RunState, Stop
from pipeline.engine.world import World
from pipeline.errors import RunError


@dataclass
class Requests:
    """What hooks have asked for; the loop acts on it and clears it."""

    stop: Stop | None = None
    checkpoint: str | None = None

    def merge(self, other: Requests) -> None:
        """Add another's wishes; what was asked first stays."""
        self.stop = self.stop or other.stop
        self.checkpoint = self.checkpoint or other.checkpoint

    def clear(self) -> None:
        self.stop = self.checkpoint = None


@dataclass(frozen=True)
class RunFacts:
    """What every hook sees alike."""

    state: RunState
    model: nn.Module
    optimizer: Optimizer
    folder: Path
    name: str
    world: World
    train: TrainSettings
    steps_per_epoch: int | None


class RunView:
    """What one hook sees (api.run.Run); gated or not decides how its wishes travel.

    Args:
        key: the hook's, as ``hooks.ema``.
    """

    def __init__(self, facts: RunFacts, requests: Requests, *, key: str, gated: bool) -> None:
        self._key = key
        self._position = facts.state.position
        self._logged = facts.state.logged
        self._requests = requests
        self._gated = gated
        self.metrics = MappingProxyType(facts.state.metrics)
        self.metrics_steps = MappingProxyType(facts.state.metrics_steps)
        self.model = facts.model
        self.optimizer = facts.optimizer
        self.folder = facts.folder
        self.name = facts.name
        self.world = facts.world
        self.steps_per_epoch = facts.steps_per_epoch
        self._train = facts.train

    @property
    def epoch(self) -> int:
        return self._position.epoch

    @property
    def step(self) -> int:
        return self._position.step

    @property
    def samples_seen(self) -> int:
        return self._position.samples_seen

    @property
    def total_steps(self) -> int | None:
        return self._position.total_steps(self._train, self.steps_per_epoch)

    def log(self, name: str, value: float | Tensor) -> None:
        if name in ("step", "epoch", "time"):
            raise RunError(f"run.log: {name!r} is a column of every row; choose another name")
        if isinstance(value, Tensor):
            value = value.detach().clone()  # the hook may change it before the row is written
        self._logged.by[name] = self._key
        if self._gated:
            self._logged.recorded[name] = value
        else:
            total, count = self._logged.averaged.get(name, (0.0, 0))
            self._logged.averaged[name] = (total + value, count + 1)

    def stop(self, reason: str) -> None:
        self._requests.merge(Requests(stop=Stop(reason, self._position.phase)))

    def checkpoint(self, reason: str) -> None:
        self._requests.merge(Requests(checkpoint=reason))
