"""What a test asks the server for, as data."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """A function of a test file, by place, with its pickled arguments."""

    file: str
    module: str
    function: str
    arguments: bytes

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
        """The call of a module-level function.

        Raises:
            ValueError: if a rank could not find the function again by its name.
        """
        file = inspect.getsourcefile(function)
        if file is None or "<" in function.__qualname__:
            raise ValueError(f"a rank can only run a function at the top of a file, got {function!r}")
        return cls(file, function.__module__, function.__qualname__, pickle.dumps(arguments))


@dataclass(frozen=True)
class Command:
    """``python -m pipeline ARGUMENTS``."""

    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """One job: what each of its ranks runs, and in what surroundings."""

    target: Call | Command
    world_size: int
    environ: dict[str, str]
    """The whole environment of the ranks, less what the launcher adds."""
    cwd: Path
    folder: Path
    """Where ``rank-N.out``, ``rank-N.err`` and ``rank-N.result`` are written."""
    launcher: bool
    """Whether ranks get the environment that torchrun gives; else they are plain processes."""
    end_together: bool
    """Whether the failure of one rank sends SIGTERM to the others at once, as torchrun does."""
