"""A position that tells what has been at work: the engine names every component before it calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.engine.position import Position


@dataclass
class WatchedPosition(Position):
    """Calls ``on_end(phase)`` whenever a phase is over."""

    on_end: Callable[[str, str], None] | None = None
    """Given the phase that ends and the one that begins."""

    def set_phase(self, phase: str) -> None:
        if self.on_end is not None:
            self.on_end(self.phase, phase)
        super().set_phase(phase)
