"""What people see: results on standard output, everything else on standard error, errors once."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from pipeline.engine.signals import STOPPED, EarlyStop
from pipeline.errors import ConfigError, PipelineError, RunError

CONFIG_ERROR = 2
FAILED = 1

_EXCERPTS = 20
"""How many problems are shown with their lines; with more the lines would be in each other's way."""
_ENDED_BY_RANK_0 = 10.0  # seconds that other ranks wait for the launcher to end them


class NotThereError(RunError):
    """The command line names a run or a checkpoint that is not there: a usage error."""


def status_of(error: BaseException, other: int = FAILED) -> int:
    """The exit status that an error calls for: 2 for a wrong config or command line, 75 for a signal."""
    if isinstance(error, EarlyStop):
        return STOPPED
    return CONFIG_ERROR if isinstance(error, ConfigError | NotThereError) else other


def say(line: str) -> None:
    """A line for people; a run goes on where nobody can read it any more."""
    with suppress(BrokenPipeError):
        click.echo(line, err=True)


def is_main_rank() -> bool:
    """Whether this process speaks for all; the launcher's word, before any group exists."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def shown_errors(status: int = FAILED) -> Iterator[None]:
    """Turn the package's errors into their message and an exit status, without a traceback.

    Args:
        status: for all errors but those of the config, whose status is 2.
    """
    try:
        yield
    except ConfigError as error:
        leave_with(str(error), CONFIG_ERROR, shown=_with_lines(error) if sys.stderr.isatty() else None)
    except PipelineError as error:
        leave_with(f"error: {error}", status_of(error, status))


def _with_lines(error: ConfigError) -> str:
    """Every problem of a config with the line that it is about, for a terminal."""
    from pipeline.config.excerpt import Excerpts

    excerpts = Excerpts(shutil.get_terminal_size().columns)
    told = []
    for number, problem in enumerate(error.problems):
        excerpt = excerpts.of(problem) if number < _EXCERPTS else ""
        told += [part for part in (str(replace(problem, detail="")), excerpt, problem.detail) if part]
    return "\n".join(told)


def leave_with(message: str, status: int, *, shown: str | None = None) -> NoReturn:
    """Print an error once in total and exit.

    Args:
        shown: what to print in the place of the message, where people see it.

    Every rank finds the same error by itself. Rank 0 prints it and leaves, whereupon the launcher ends
    the others; were another to leave first, the launcher could end rank 0 before it has spoken. One
    that nobody ends has an error of its own, and prints it.
    """
    try:
        let_rank_0_speak()
    except EarlyStop:  # by the launcher
        sys.exit(status)
    say(message if shown is None else shown)
    tell_launcher(message)
    sys.exit(status)


def tell_launcher(message: str, stack: str = "") -> None:
    """Write the file from which torchrun's summary takes the first error, if there is to be one.

    As torch does it, without waiting for its import.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        Path(path).write_text(json.dumps({"message": {"message": message, "extraInfo": extra}}))


def let_rank_0_speak() -> None:
    """On other ranks, wait to be ended by the launcher, as it does when rank 0 leaves."""
    if not is_main_rank():
        time.sleep(_ENDED_BY_RANK_0)
