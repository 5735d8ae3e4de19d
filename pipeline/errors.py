"""The errors of the package: one hierarchy, each error carrying its data.

PipelineError
├── ConfigError       the config or a command line is wrong; every fault at once (exit 2)
├── ComponentError    a component cannot be found, loaded, built, or broke its contract
├── CheckpointError   a checkpoint cannot be written, read or fitted
└── RunError          a run folder or a run in progress is at fault
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class PipelineError(Exception):
    """Base of all errors that this package raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One fault of a config, as one line: ``PLACE: key: what is wrong; what was expected; nearest``."""

    place: str
    """Where it was written: ``pipeline.toml:3:7``, or ``--set`` for an override."""
    key: str
    """The full dotted key, as ``optimizer.lr``; empty where no key is at fault."""
    message: str
    """What is wrong, with the value in force."""
    expected: str = ""
    """What would be right."""
    nearest: str = ""
    """The nearest valid name, where there is one."""
    detail: str = ""
    """Further lines, as the traceback of a package that does not import."""

    def __str__(self) -> str:
        if self.place.startswith("--"):  # an override: its key belongs to its place
            head = f"{self.place} {self.key}" if self.key else self.place
        else:
            head = f"{self.place}: {self.key}" if self.key else self.place
        line = f"{head}: {self.message}"
        if self.expected:
            line += f"; expected {self.expected}"
        if self.nearest:
            line += f"; did you mean {self.nearest!r}?"
        return f"{line}\n{self.detail}" if self.detail else line


class ConfigError(PipelineError):
    """A config cannot be used; ``problems`` holds all of its faults, in the file's order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ComponentError(PipelineError):
    """A component cannot be found, loaded or built, or does not keep its kind's contract."""


class CheckpointError(PipelineError):
    """A checkpoint cannot be written, is damaged, or does not fit the run."""


class RunError(PipelineError):
    """A run folder cannot be made or read, or a run cannot go on."""
