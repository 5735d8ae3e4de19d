"""Building components one by one."""

from __future__ import annotations

from typing import Any

from pipeline.engine import random_state
from pipeline.engine.experiment import Part
from pipeline.engine.position import Position


class Builder:
    """Builds each part under a seed of its own, so that none's draws move another's."""

    def __init__(self, seed: int, position: Position) -> None:
        self._seed = seed
        self._position = position

    def build(self, part: Part, *arguments: Any, **by_name: Any) -> Any:
        """Build a part; its key is the phase that a failure is reported in."""
        self.at_work(part.key)
        random_state.seed_all(self._seed, "build", part.key)
        return part.build(*arguments, **by_name)

    def at_work(self, phase: str) -> None:
        """Say what a failure is to be reported in: a part's key, or an activity between two parts."""
        self._position.set_phase(phase)
