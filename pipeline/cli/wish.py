"""What the user asked for beside the config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wish:
    """What the user asked for beside the config."""

    resume: bool = False
    resume_run: str | None = None
    """Which run; None: the newest of the same identity."""
    restart: bool = False
    """The run is this launcher's own: whatever its record says, nobody else is at it."""
    parent: str | None = None
    """RUN or RUN@CHECKPOINT to start from."""
    accept_changes: bool = False
    named: bool = False
    """The command line gives the run's name: only a run of this name is gone on with."""
    runs_dir: Path = Path("runs")
    command: tuple[str, ...] = ()
