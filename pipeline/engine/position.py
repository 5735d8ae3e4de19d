"""Where the run stands: counters that a checkpoint holds, and what is at work just now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_COUNTERS = ("epoch", "step", "step_in_epoch", "samples_seen")


@dataclass
class Position:
    """The counters of a run, and for the report of a failure what this rank is doing."""

    epoch: int = 0
    """The epoch in progress, from 0."""
    step: int = 0
    """Optimizer steps done since the run began."""
    step_in_epoch: int = 0
    """Optimizer steps done of the epoch in progress."""
    samples_seen: int = 0
    """Training samples consumed by all ranks since the run began."""
    phase: str = "start"
    """The key of the component at work (``model``, ``hooks.ema``), or the engine's own activity."""

    def set_phase(self, phase: str) -> None:
        self.phase = phase

    def advance(self, samples: int) -> None:
        """Count a step done."""
        self.step += 1
        self.step_in_epoch += 1
        self.samples_seen += samples

    def next_epoch(self) -> None:
        self.epoch += 1
        self.step_in_epoch = 0

    def state_dict(self) -> dict[str, int]:
        """The counters, for a checkpoint."""
        return {name: getattr(self, name) for name in _COUNTERS}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        for name in _COUNTERS:
            setattr(self, name, state[name])
