"""One short run of the config in real processes, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

EVALUATION_BATCHES = 4
"""At most so many batches of each dataset in an evaluation of a trial."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The config that is verified, as every process reads it anew."""

    config: str
    sets: tuple[str, ...]
    unsets: tuple[str, ...]
    seed: int
    """In force; drawn once where the config has none."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is done with it."""

    world_size: int
    steps: int
    neutral: bool = False
    """Without what makes a sample depend on ranks by intention: dropout, and batch statistics."""
    double: bool = False
    """In float64, so that rounding can be told from faults."""
    elsewhere: bool = False
    """In processes that hash strings with another seed."""
    look_after: int | None = None
    """Note what components keep in their attributes after this step, and hooks after later ones."""
    save_after: int | None = None
    """Write a checkpoint after this step."""
    kill_after: int | None = None
    """Kill all processes after this step."""
    resumes: Trial | None = None
    """Go on where this one was killed."""

    @property
    def evaluate_every(self) -> int:
        """Steps from one evaluation to the next: several of them, so that what counts them shows."""
        return max(1, self.steps // 4)

    def __str__(self) -> str:
        """What is done, for people."""
        if self.resumes is not None:
            done = f"resumed after step {self.resumes.save_after}"
        elif self.kill_after is not None:
            done = f"killed after step {self.kill_after}"
        else:
            done = f"{self.steps} steps"
        how = ["without dropout"] * self.neutral + ["in float64"] * self.double
        how += ["with another hash seed"] * self.elsewhere
        return f"{', '.join([f'{done} with {processes(self.world_size)}', *how])}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trial:
        resumes = data["resumes"]
        return cls(**{**data, "resumes": cls.from_dict(resumes) if resumes else None})


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a laboratory is asked for: a trial, or with none a probe of the components."""

    subject: Subject
    folder: str
    """Where its processes write; it exists."""
    trial: Trial | None
    resume_from: str | None = None
    """The run folder of the killed trial."""
    double: bool = False
    """Probe in float64."""

    @property
    def world_size(self) -> int:
        return self.trial.world_size if self.trial else 1

    @property
    def run_folder(self) -> Path:
        """A resumed trial goes on in the folder of the killed one."""
        return Path(self.resume_from or Path(self.folder) / "run")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Order:
        subject = Subject(**{**data["subject"], "sets": tuple(data["subject"]["sets"])})
        subject = replace(subject, unsets=tuple(subject.unsets))
        trial = Trial.from_dict(data["trial"]) if data["trial"] else None
        return cls(**{**data, "subject": subject, "trial": trial})


def processes(number: int) -> str:
    """A number of processes in words."""
    return "one process" if number == 1 else f"{number} processes"
