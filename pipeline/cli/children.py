"""How the runs of a sweep are started."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.cli.jobs import Job
from pipeline.cli.members import Member, load_member
from pipeline.cli.output import say
from pipeline.config.plan import Source
from pipeline.errors import ConfigError, Problem
from pipeline.runs.listing import RunRow, read_row


@dataclass(frozen=True)
class Children:
    """What all runs of a sweep have in common."""

    config: Path
    sets: Sequence[str]
    unsets: Sequence[str]
    runs_dir: Path
    nproc: int | None

    def member(self, varied: tuple[str, ...]) -> Member:
        """The run with these overrides.

        Raises:
            ConfigError: with all faults of its config.
        """
        return load_member(self.config, varied, self.sets, self.unsets)

    def refuse_another(self, member: Member) -> None:
        """Every run reads the files anew: none may begin once they say another experiment than ``member``.

        Raises:
            ConfigError: if they do, or cannot be read any more.
        """
        now = self.member(member.varied)
        if _experiment(now) != _experiment(member):
            was = member.config
            changed = [one.path.name for one in was.sources if one not in now.config.sources]
            message = "was edited while the sweep went on, which would mix two experiments"
            remedy = "the text as it was to go on with this sweep; the same command begins another one"
            raise ConfigError([Problem(", ".join(changed) or str(was.path), "", message, remedy)])

    def job(self, member: Member, row: RunRow | None, environment: Mapping[str, str] | None = None) -> Job:
        """The command that begins a run, or goes on with the one of ``row``.

        A run that a sweep has left behind when it was killed is waited for.
        """
        words = [sys.executable, "-m", "pipeline", "run", str(self.config)]
        words += [*_repeated("--set", (*self.sets, *member.varied)), *_repeated("--unset", self.unsets)]
        words += ["--runs-dir", str(self.runs_dir)]
        if self.nproc is not None:
            words += ["--nproc", str(self.nproc)]
        if row is None:
            return Job(words, environment or {})
        if row.status == "running":
            say(f"{member.label}: is running already, as {row.folder.path}; waiting for its end")
        words += ["--resume", str(row.folder.path.absolute())]
        return Job(words, environment or {}, lambda: read_row(row.folder).status == "running")


def _experiment(member: Member) -> tuple[str, list[Source]]:
    """What a run of it is: its values, and the text of its local components."""
    code = [source for source in member.config.sources if source.path.suffix == ".py"]
    return member.experiment, code


def _repeated(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
