"""A config while it is validated: the merged and interpolated tree, and where its problems go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipeline.config.homes import tables_with_keys
from pipeline.config.interpolation import Interpolated
from pipeline.config.keys import KeyPath, dotted, find
from pipeline.config.merge import Merged
from pipeline.config.plan import Fault, Place, SchemaSource
from pipeline.config.report import Report
from pipeline.config.wording import kind_of, show

_SHORTEST_SHOWN, _LONGEST_SHOWN = 4, 80
"""Characters of a text that a message has before it is cut; of a shorter beginning little is seen."""


@dataclass(frozen=True)
class Draft:
    """What the checks of a config share; none of them changes it, all of them report to it."""

    merged: Merged
    written: Mapping[str, Any]
    """The tree before interpolation."""
    interpolated: Interpolated
    broken: frozenset[KeyPath]
    """Keys that were left out because of a problem that is reported already."""
    schemas: SchemaSource
    report: Report
    lacks_names: bool = False
    """Whether a local file could not be imported, so that components are missing."""
    warnings: list[str] = field(default_factory=list)

    @property
    def tree(self) -> Mapping[str, Any]:
        return self.interpolated.tree

    def place(self, path: KeyPath) -> Place:
        """Where ``path``, or else the nearest table around it, was written."""
        return self.merged.origin(path).place

    def table(self, path: KeyPath) -> Mapping[str, Any] | None:
        """The table at ``path``; None where there is none, which is reported if something else is there."""
        value = find(self.tree, path)
        if value is None or isinstance(value, Mapping):
            return value
        self.complain(path, f"got {show(value)}, {kind_of(value)}", expected="a table")
        return None

    def is_broken(self, path: KeyPath) -> bool:
        """Whether ``path`` or a table around it could not be read, which is reported already."""
        return any(path[:length] in self.broken for length in range(len(path) + 1))

    def warn(self, message: str) -> None:
        """Note what is no fault, but hardly what was meant."""
        self.warnings.append(message)

    def complain(
        self, path: KeyPath, message: str, *, expected: str = "", nearest: str = "", detail: str = ""
    ) -> None:
        """Report a problem at ``path``, unless one is reported for the same key already."""
        if self.is_broken(path):
            return
        self.report.add(
            self.place(path),
            dotted(path),
            self._masked(message, path),
            expected=self._masked(expected, path),
            nearest=nearest,
            detail=self._masked(detail, path),
        )

    def complain_of_fault(self, table: KeyPath, fault: Fault) -> None:
        """Report what is wrong with a table, from its schema's answer."""
        self.complain(
            (*table, *fault.path),
            fault.message,
            expected=fault.expected,
            nearest=fault.nearest,
            detail=fault.detail,
        )

    def _masked(self, message: str, path: KeyPath) -> str:
        """The message without what came from the environment to ``path``, below or around it."""
        for taken in (*self.variables(path), *self.variables_around(path)) if message else ():
            value, written = find(self.tree, taken), self.interpolated.environment[taken]
            if isinstance(value, str) and value:
                for shown in (show(value), repr(value)):
                    message = message.replace(shown, written)
                message = _without_beginning(message, value, written)
        return message

    def variables(self, path: KeyPath) -> Sequence[KeyPath]:
        """The paths at or below this one whose values came from the environment."""
        return self._taken.get(path, ())

    def variables_around(self, path: KeyPath) -> list[KeyPath]:
        """The tables and arrays above a path that came from the environment as a whole."""
        above = (path[:length] for length in range(len(path)))
        return [one for one in above if one in self.interpolated.environment]

    @cached_property
    def _taken(self) -> Mapping[KeyPath, list[KeyPath]]:
        """For each path, what at or below it came from the environment."""
        below: dict[KeyPath, list[KeyPath]] = {}
        for taken in self.interpolated.environment:
            for length in range(len(taken) + 1):
                below.setdefault(taken[:length], []).append(taken)
        return below

    @cached_property
    def homes(self) -> Mapping[str, KeyPath]:
        """For each key, the first table of this config that takes it."""
        found: dict[str, KeyPath] = {}
        for path, keys in tables_with_keys(self.tree, self.schemas):
            for key in keys:
                found.setdefault(key, path)
        return found


def _without_beginning(message: str, value: str, written: str) -> str:
    """The message without a text that it has cut to a line, by itself or within a table."""
    for form in {value, repr(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
        for length in range(min(len(form), _LONGEST_SHOWN), _SHORTEST_SHOWN - 1, -1):
            if f"{form[:length]}..." in message:
                message = message.replace(f"{form[:length]}...", f"{written}...")
                break
    return message
