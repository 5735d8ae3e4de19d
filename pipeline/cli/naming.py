"""Runs and checkpoints as the command line names them."""

from __future__ import annotations

from pathlib import Path

from pipeline.cli.output import NotThereError
from pipeline.errors import CheckpointError, RunError
from pipeline.runs.checkpoints import Checkpoint, Checkpoints
from pipeline.runs.layout import RunFolder
from pipeline.runs.listing import find_run


def named_run(runs_dir: Path, ref: str) -> RunFolder:
    """The run that ``--resume`` or ``--from`` means.

    Raises:
        NotThereError: if there is none; it names the nearest.
    """
    try:
        return find_run(runs_dir, ref)
    except RunError as error:
        raise NotThereError(str(error)) from error


def parse_parent(text: str, runs_dir: Path) -> tuple[RunFolder, Checkpoint | None]:
    """``RUN`` or ``RUN@CHECKPOINT``.

    Raises:
        NotThereError: if there is no such run or checkpoint.
    """
    run, at, name = text.partition("@")
    folder = named_run(runs_dir, run)
    try:
        return folder, Checkpoints(folder.checkpoints).resolve(name) if at else None
    except CheckpointError as error:
        raise NotThereError(f"--from {text}: {error}") from error
