"""Gathering the problems of a config, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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

    def problems(self, files: Sequence[str] = ()) -> tuple[Problem, ...]:
        """All problems: file by file in the order of ``files``, each by line; the command line's last."""
        order = {file: number for number, file in reversed(list(enumerate(files)))}

        def position(finding: Finding) -> tuple[int, int, int]:
            place = finding.place
            after = len(order) + (1 if place.file.startswith("--") else 0)
            return order.get(place.file, after), place.line, place.column

        return tuple(finding.problem for finding in sorted(self.findings, key=position))

    def raise_if_any(self, files: Sequence[str] = ()) -> None:
        """Raise ConfigError with all problems, if there are any."""
        if self.findings:
            raise ConfigError(self.problems(files))
