"""What the built-in components take, told without importing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.api.kinds import RULES, Kind
from pipeline.api.metric_name import is_measured
from pipeline.config.fitting import Fit, UnsureError, fit_of, toml_of
from pipeline.config.keys import KeyPath
from pipeline.config.outline import own_keys
from pipeline.config.plan import CheckedTable, Fault
from pipeline.registry.catalog import Catalog
from pipeline.registry.discovery import Discovery, Entry
from pipeline.registry.distributions import normalised
from pipeline.registry.source import MISSING, Argument, arguments_of

OURS = "pipeline-ddp"
"""The distribution whose components' texts are known to say what they take: a test compares each."""

_REFUSED = frozenset({"torch.optim:LBFGS"})
"""What the registry refuses for its methods, which are not looked at here."""


@dataclass(frozen=True)
class _Settable:
    """An argument that a table may set."""

    written: Argument
    annotation: Any
    fit: Fit

    def value(self) -> Any:
        """The default, as the value that writing it into the table would give; MISSING: there is none."""
        default = self.written.default
        if default is MISSING or default is None:
            return default
        return self.fit(toml_of(default))


class SourceSchemas:
    """Answers as the registry does (``pipeline.config.plan.SchemaSource``), of built-in components alone.

    Whatever is not plain to see in their text raises UnsureError, and so does a table that is at
    fault: the registry knows.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._catalog = Catalog(discovery.entries)
        self._found: dict[str, dict[str, _Settable]] = {}

    def accepts(self, kind: Kind, type_name: str) -> frozenset[str]:
        """The arguments that a component takes."""
        return frozenset(self._settable(kind, type_name))

    def nested(self, kind: Kind, type_name: str) -> Mapping[str, Kind]:
        """No argument of a component that is known here takes another component."""
        self._settable(kind, type_name)
        return {}

    def check(
        self,
        kind: Kind,
        type_name: str,
        table: Mapping[str, Any],
        *,
        folders: Mapping[str, Path],
        only: bool = False,
    ) -> CheckedTable:
        """Validate a component's table; the listed choices in it are not told."""
        settable = self._settable(kind, type_name)
        if table.keys() - settable.keys():
            raise UnsureError(f"the {kind} {type_name!r} does not take all of it")
        arguments: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        paths: set[KeyPath] = set()
        for name, one in settable.items():
            if name not in table and only:
                continue
            value = one.fit(table[name]) if name in table else one.value()
            if value is MISSING:
                raise UnsureError(f"{name} is missing")
            if isinstance(value, Path):  # a default, which may be relative to anything, is no path here
                value = folders[name] / value
                paths.add((name,))
            arguments[name] = value
            if value is not None:
                plain[name] = str(value) if isinstance(value, Path) else toml_of(value)
        measured = frozenset((name,) for name, one in settable.items() if is_measured(one.annotation))
        return CheckedTable(arguments, plain, paths=frozenset(paths), measured=measured)

    def _settable(self, kind: Kind, type_name: str) -> dict[str, _Settable]:
        claim = self._catalog.find(kind, type_name)
        source = None if isinstance(claim, Fault) else claim.source
        if not isinstance(source, Entry) or normalised(source.distribution) != OURS:
            raise UnsureError(f"the {kind} {type_name!r} is not built in")
        if source.target in _REFUSED:
            raise UnsureError(f"the {kind} {type_name!r} is refused")
        if source.target not in self._found:
            self._found[source.target] = dict(_settable(kind, arguments_of(source.target)))
        return self._found[source.target]


def _settable(kind: Kind, arguments: Sequence[Argument]) -> Iterator[tuple[str, _Settable]]:
    """Those that the engine does not pass itself, and that TOML has values for."""
    rules = RULES[kind]
    passed = arguments[: len(rules.positional)]
    if tuple(one.name for one in passed if one.is_positional) != rules.positional:
        raise UnsureError(f"it does not take {', '.join(rules.positional)}")
    for one in arguments[len(passed) :]:
        if one.name in rules.by_name:
            continue
        if one.name in own_keys(kind):
            raise UnsureError(f"{one.name} is the engine's own key")
        annotation = one.annotation
        fit = fit_of(annotation)
        if fit:
            yield one.name, _Settable(one, annotation, fit)
        elif one.default is MISSING:
            raise UnsureError(f"no table can set {one.name}, which it requires")
