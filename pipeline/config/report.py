"""Gathering the problems of a config, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeline.config.plan import Place
from pipeline.errors import ConfigError, Problem


@dataclass(frozen=True)
class Finding:
    """One problem while its place can still be compared with others."""

    place: Place
    problem: Problem


@dataclass
class Report:
    """The problems found so far; filled while one config is read, then raised or dropped."""

    findings: dict[Finding, None] = field(default_factory=dict)
    """A dictionary, as what is found twice counts once."""

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Report:
        """A report that begins with these."""
        return cls(dict.fromkeys(findings))

    def add(
        self,
        place: Place,
        key: str,
        message: str,
        *,
        expected: str = "",
        nearest: str = "",
        detail: str = "",
    ) -> None:
        """Note a problem; the same one twice counts once."""
        finding = Finding(place, Problem(str(place), key, message, expected, nearest, detail))
        self.findings[finding] = None

    def problems(self, chains: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
        """All problems: file by file, each by line; the command line's last.

        Args:
            chains: the files in their order, each with the places that extend it, "" for none.
        """
        chains = chains or {}
        order = {file: number for number, file in enumerate(chains)}

        def position(finding: Finding) -> tuple[int, int, int]:
            place = finding.place
            after = len(order) + (1 if place.file.startswith("--") else 0)
            return order.get(place.file, after), place.line, place.column

        return tuple(
            _extended(finding, chains.get(finding.place.file, ""))
            for finding in sorted(self.findings, key=position)
        )

    def raise_if_any(self, chains: Mapping[str, str] | None = None) -> None:
        """Raise ConfigError with all problems, if there are any."""
        if self.findings:
            raise ConfigError(self.problems(chains))


def _extended(finding: Finding, chain: str) -> Problem:
    """The problem, with a line about how its file came to be read."""
    if not chain:
        return finding.problem
    detail = f"{finding.problem.detail}\n" if finding.problem.detail else ""
    return replace(finding.problem, detail=f"{detail}{finding.place.file} is extended by {chain}")
