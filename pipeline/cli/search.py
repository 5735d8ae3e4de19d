"""Which host has the newest of the run that is to go on: each looks in its own runs folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.cli.loading import Loaded
from pipeline.cli.naming import named_run
from pipeline.cli.output import NotThereError
from pipeline.cli.wish import Wish
from pipeline.config.config import identity
from pipeline.runs.checkpoints import Checkpoints
from pipeline.runs.layout import RunFolder
from pipeline.runs.listing import newest_of_identity
from pipeline.runs.record import read


@dataclass(frozen=True)
class Found:
    """A run as one host has it."""

    run: str
    """Its folder's name, which is the same on all hosts."""
    created: str
    host: str
    path: str
    checkpoint: int
    """Optimizer steps in its newest sound checkpoint; 0: it has none."""
    steps: int
    """Optimizer steps that its record knows of."""
    attempts: int


def run_to_resume(loaded: Loaded, wish: Wish) -> RunFolder | None:
    """The run in this host's runs folder that is meant; None where a new one is to begin.

    Raises:
        NotThereError: if a run is named that is not there.
        RunError: if the runs folder cannot be read.
    """
    if not wish.resume:
        return None
    if wish.resume_run is not None:
        return named_run(wish.runs_dir, wish.resume_run)
    own = identity(loaded.config, drawn_seed=loaded.config.plan.seed is None)
    row = newest_of_identity(wish.runs_dir, own, name=loaded.config.plan.name if wish.named else None)
    return row.folder if row else None


def look(loaded: Loaded, wish: Wish, host: str) -> Found | None:
    """What this host has; it reads every byte of the newest checkpoint.

    Raises:
        RunError, CheckpointError: if the runs folder, or the run's, cannot be read.
    """
    try:
        folder = run_to_resume(loaded, wish)
    except NotThereError:  # another host may have it; where none has, the leader says so
        return None
    if folder is None:
        return None
    record = read(folder)
    newest, _ = Checkpoints(folder.checkpoints).newest_sound()
    return Found(
        run=folder.name,
        created=record.created.isoformat(),
        host=host,
        path=str(folder.path.absolute()),
        checkpoint=newest.step if newest else 0,
        steps=record.steps,
        attempts=len(record.attempts),
    )


def leader(found: Sequence[Found | None]) -> int:
    """The lowest rank that holds the newest sound checkpoint of the newest run; 0 where none has any."""
    holders = [(_age(one), -rank) for rank, one in enumerate(found) if one is not None]
    return -max(holders)[1] if holders else 0


def _age(found: Found) -> tuple[datetime, str, int, int, int]:
    created = datetime.fromisoformat(found.created)
    return created, found.run, found.checkpoint, found.attempts, found.steps
