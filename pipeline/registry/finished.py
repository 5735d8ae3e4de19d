"""Validated values on their way to a CheckedTable: paths made absolute, nested tables checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel

from pipeline.api.kinds import Kind
from pipeline.config.keys import KeyPath, find
from pipeline.config.plan import CheckedTable, ComponentPlan, Fault, Place
from pipeline.config.wording import listed, nearest
from pipeline.registry.annotations import Chosen, NestedTable, Record
from pipeline.registry.fields import key_of
from pipeline.registry.nested import nested_plans
from pipeline.registry.plain import NoTomlForm, plain
from pipeline.registry.traits import SECRETS, is_listed

CheckNested: TypeAlias = Callable[[Kind, str, Mapping[str, Any], Path | None], CheckedTable]
"""Checks a nested component's table; the folder is what relative paths in it are relative to."""


@dataclass
class Finished:
    """What a table's validated values become, argument by argument.

    Each of the methods below gives a pair: what the component is called with, and the same as TOML.
    """

    table: Mapping[str, Any]
    folders: Mapping[str, Path]
    nested: CheckNested
    arguments: dict[str, Any] = field(default_factory=dict)
    plain: dict[str, Any] = field(default_factory=dict)
    paths: set[KeyPath] = field(default_factory=set)
    secrets: set[KeyPath] = field(default_factory=set)
    choices: set[KeyPath] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        """Finish one argument."""
        argument, written = self._finish((name,), value)
        self.arguments[name] = argument
        if written is not None:
            self.plain[name] = written

    def result(
        self, faults: list[Fault], *, measured: frozenset[KeyPath], shadowed: frozenset[str]
    ) -> CheckedTable:
        """All that was added, with the faults of the validation before its own."""
        return CheckedTable(
            self.arguments,
            self.plain,
            frozenset(self.paths),
            frozenset(self.secrets),
            frozenset(self.choices),
            measured,
            shadowed,
            (*faults, *self.faults),
        )

    def _finish(self, path: KeyPath, value: Any) -> tuple[Any, Any]:
        for types, finish in _FORMS:
            if isinstance(value, types):
                return finish(self, path, value)
        try:
            return value, None if value is None else plain(value)
        except NoTomlForm:  # an object of the author's own type: what the table had is its TOML
            return value, find(self.table, path)

    def _chosen(self, path: KeyPath, value: Chosen) -> tuple[Any, Any]:
        self.choices.add(path)
        return value.value, value.value

    def _member(self, path: KeyPath, value: Enum) -> tuple[Enum, Any]:
        self.choices.add(path)
        return value, plain(value)

    def _secret(self, path: KeyPath, value: Any) -> tuple[Any, Any]:
        self.secrets.add(path)
        return value, plain(value)

    def _path(self, path: KeyPath, value: Path) -> tuple[Path, str | None]:
        """A relative default has no form: it is relative to wherever the component looks."""
        folder = self.folders.get(str(path[0]))
        is_written = find(self.table, path) is not None
        absolute = folder / value if folder is not None and is_written else value
        self.paths.add(path)
        return absolute, str(absolute) if is_written or value.is_absolute() else None

    def _items(self, path: KeyPath, value: list[Any] | tuple[Any, ...]) -> tuple[Any, Any]:
        pairs = [self._finish((*path, index), item) for index, item in enumerate(value)]
        items = [pair[0] for pair in pairs]
        kind = type(value)
        argument = kind(*items) if hasattr(kind, "_fields") else kind(items)  # a named tuple takes them apart
        written = [pair[1] for pair in pairs]
        return argument, None if None in written else written

    def _members(self, path: KeyPath, value: set[Any] | frozenset[Any]) -> tuple[Any, Any]:
        _, written = self._finish(path, sorted(value, key=repr))
        return type(value)(item.value if isinstance(item, Chosen) else item for item in value), written

    def _entries(self, path: KeyPath, value: dict[Any, Any]) -> tuple[Any, Any]:
        if not all(isinstance(key, str) for key in value):
            return value, find(self.table, path)
        pairs = {key: self._finish((*path, key), item) for key, item in value.items()}
        return {k: pair[0] for k, pair in pairs.items()}, {
            k: pair[1] for k, pair in pairs.items() if pair[1] is not None
        }

    def _model(self, path: KeyPath, value: BaseModel) -> tuple[BaseModel, Any]:
        known = {key_of(type(value), name): name for name in type(value).model_fields}
        if value.model_config.get("extra") != "allow":
            self._unknown_keys(path, known)
        update, written = {}, {}
        for key, name in {**known, **{extra: extra for extra in value.model_extra or {}}}.items():
            inner = (*path, key)
            given = getattr(value, name)
            update[name], form = self._finish(inner, given)
            if form is not None:
                written[key] = form
            if name in known.values() and is_listed(type(value).model_fields[name].annotation, given):
                self.choices.add(inner)
        return value.model_copy(update=update), written

    def _record(self, path: KeyPath, value: Record) -> tuple[Any, Any]:
        pairs = {name: self._finish((*path, name), item) for name, item in value.values.items()}
        arguments = {name: pair[0] for name, pair in pairs.items()}
        written = {name: pair[1] for name, pair in pairs.items() if pair[1] is not None}
        if any(True for _ in nested_plans(arguments)):  # it is made for the run, of what is built then
            return replace(value, values=arguments), written
        try:
            return value.type(**arguments), written
        except Exception as error:  # noqa: BLE001 -- the author's own checks, in __post_init__
            self.faults.append(Fault(path, f"{value.type.__name__} does not take it: {error}"))
            return None, None

    def _unknown_keys(self, path: KeyPath, known: Mapping[str, Any]) -> None:
        given = find(self.table, path)
        for key in given if isinstance(given, Mapping) else ():
            if key not in known:
                near = nearest(key, known)
                expected = "" if near else listed(known) or "no key"
                self.faults.append(Fault((*path, key), "unknown key", expected, near))

    def component(self, path: KeyPath, value: NestedTable) -> tuple[Any, Any]:
        """The plan of a component that stands inside this one."""
        table = {key: item for key, item in value.items() if key != "type"}
        type_name = value["type"]
        checked = self.nested(value.kind, type_name, table, self.folders.get(str(path[0])))
        self.faults += [
            Fault(
                (*path, *fault.path),
                fault.message,
                fault.expected,
                fault.nearest,
                fault.detail,
                is_unknown_name=fault.is_unknown_name,
            )
            for fault in checked.faults
        ]
        self.paths |= {(*path, *inner) for inner in checked.paths}
        self.secrets |= {(*path, *inner) for inner in checked.secrets}
        self.choices |= {(*path, *inner) for inner in checked.choices} | {(*path, "type")}
        key = ".".join(map(str, path))
        plan = ComponentPlan(value.kind, key, type_name, checked.arguments, Place(""))
        return plan, {"type": type_name, **checked.plain}


_FORMS: tuple[tuple[Any, Callable[[Finished, KeyPath, Any], tuple[Any, Any]]], ...] = (
    (Chosen, Finished._chosen),
    (Enum, Finished._member),
    (SECRETS, Finished._secret),
    (Path, Finished._path),
    (NestedTable, Finished.component),
    (Record, Finished._record),
    (BaseModel, Finished._model),
    ((list, tuple), Finished._items),
    ((set, frozenset), Finished._members),
    (dict, Finished._entries),
)
