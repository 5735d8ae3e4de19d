"""Where the run stands: counters that a checkpoint holds, and what is at work just now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.api.settings import TrainSettings

_SAVED = ("epoch", "step", "step_in_epoch", "epoch_ended", "samples_seen")


@dataclass
class Position:
    """The counters of a run, and for the report of a failure what this rank is doing."""

    epoch: int = 0
    """The epoch in progress, from 0."""
    step: int = 0
    """Optimizer steps done since the run began."""
    step_in_epoch: int = 0
    """Optimizer steps done of the epoch in progress."""
    epoch_ended: bool = False
    """Whether the epoch in progress has had its last step; the next begins only with its first."""
    samples_seen: int = 0
    """Training samples consumed by all ranks since the run began."""
    phase: str = "start"
    """The key of the component at work (``model``, ``hooks.ema``), or the engine's own activity."""
    entered: float = field(default_factory=time.time)
    """When the phase was set, in seconds since 1970: another thread sees by it whether this one moves."""

    def set_phase(self, phase: str) -> None:
        self.phase = phase
        self.entered = time.time()

    @property
    def epochs_done(self) -> int:
        return self.epoch + self.epoch_ended

    def total_steps(self, train: TrainSettings, steps_per_epoch: int | None) -> int | None:
        """Optimizer steps of the whole run: those done, and those that are left as they are dealt now.

        None for epochs of unknown length, until the last of them has ended.
        """
        if train.epochs is None:
            return train.steps
        epochs_left = train.epochs - self.epochs_done
        if epochs_left <= 0:
            return self.step
        if steps_per_epoch is None:
            return None
        return self.step + epochs_left * steps_per_epoch - (0 if self.epoch_ended else self.step_in_epoch)

    def advance(self, samples: int, *, epoch_ended: bool) -> None:
        """Count a step done."""
        self.step += 1
        self.step_in_epoch += 1
        self.samples_seen += samples
        self.epoch_ended = epoch_ended

    def next_epoch(self) -> None:
        self.epoch += 1
        self.step_in_epoch = 0
        self.epoch_ended = False

    def state_dict(self) -> dict[str, int]:
        """The counters, for a checkpoint."""
        return {name: getattr(self, name) for name in _SAVED}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        for name in _SAVED:
            setattr(self, name, state[name])
