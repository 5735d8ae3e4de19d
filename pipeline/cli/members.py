"""The runs that a sweep is to have, and what has become of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.api.trial import is_pruned
from pipeline.cli.loading import load_with_registry
from pipeline.config.config import Config, fingerprint
from pipeline.errors import ConfigError, Problem
from pipeline.runs.listing import RunRow


@dataclass(frozen=True)
class Member:
    """One combination of a grid."""

    varied: tuple[str, ...]
    """The overrides that make it: ``optimizer.lr=0.1``."""
    config: Config

    @property
    def label(self) -> str:
        return " ".join(self.varied)

    @property
    def experiment(self) -> str:
        """Hash of all its values; a seed that is still to be drawn counts as one of them."""
        return fingerprint(self.config, self.config.plan.seed or 0)

    def run_in(self, rows: Sequence[RunRow]) -> RunRow | None:
        """The newest run of exactly this experiment; one whose seed was drawn counts with that seed."""
        return next((row for row in reversed(rows) if self._is_in(row)), None)

    def _is_in(self, row: RunRow) -> bool:
        run, seed = row.summary, self.config.plan.seed
        if run is None or run.parent_run is not None or run.seed_drawn is not (seed is None):
            return False
        return run.fingerprint == fingerprint(self.config, run.seed if seed is None else seed)


def load_member(path: Path, varied: tuple[str, ...], sets: Sequence[str], unsets: Sequence[str]) -> Member:
    """Read and validate the config of one combination.

    Raises:
        ConfigError: with all its faults.
    """
    return Member(varied, load_with_registry(path, sets=[*sets, *varied], unsets=unsets).config)


def load_members(
    path: Path, combinations: Sequence[tuple[str, ...]], sets: Sequence[str], unsets: Sequence[str]
) -> list[Member]:
    """Read and validate the config of every combination, before any of them runs.

    Raises:
        ConfigError: with the faults of all combinations, and those that differ in nothing.
    """
    members: list[Member] = []
    problems: dict[Problem, None] = {}
    for varied in combinations:
        try:
            members.append(load_member(path, varied, sets, unsets))
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
    seen: dict[str, Member] = {}
    for member in members:
        same = seen.setdefault(member.experiment, member)
        if same is not member:
            message = f"{member.label} is the same experiment as {same.label}"
            problems[Problem("--grid", "", message, "values that make a difference")] = None
    if problems:
        raise ConfigError(list(problems))
    return members


def whole(rows: Sequence[RunRow]) -> list[RunRow]:
    """Without those that a sweep of Optuna's has ended early, although they are completed by their record."""
    return [row for row in rows if row.summary is None or not is_pruned(row.summary.reason)]


def rows_of(members: Sequence[Member], rows: Sequence[RunRow]) -> list[RunRow | None]:
    """The run of each member, if it has one among these."""
    return [member.run_in(rows) for member in members]
