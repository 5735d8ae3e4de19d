"""What becomes of a component's arguments when a later layer changes its ``type``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pipeline.api.kinds import Kind
from pipeline.config.keys import KeyPath, children, copied, dotted, find
from pipeline.config.merge import Merged
from pipeline.config.outline import component_tables, default_type, own_keys
from pipeline.config.plan import SchemaSource

TypeOf: TypeAlias = Callable[[KeyPath, str], str | None]
"""Gives the final ``type`` of the table at a path, given as it is written; None where it cannot be told."""


@dataclass(frozen=True)
class Change:
    """A ``type`` that is not the one an earlier layer gave."""

    layer: int
    before: str
    after: str


def drop_stale_arguments(
    merged: Merged, schemas: SchemaSource, type_of: TypeOf
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Leave out arguments from before a change of ``type`` that the new component does not take.

    What the layer of the new ``type`` or a later one sets stays, known or not. Nested components
    are treated alike.

    Returns:
        The tree without them, and one warning for each table that lost some.
    """
    tree = copied(merged.tree)
    warnings = []
    for kind, path, table in _with_nested(merged.tree, schemas, type_of):
        default = default_type(kind, str(path[-1])) if len(path) <= 2 else None
        change = last_change(merged.types.get(path, ()), default)
        after = type_of(path, change.after) if change else None
        if change is None or after is None:
            continue
        accepted = schemas.accepts(kind, after)
        if accepted is None:
            continue
        known = accepted | set(own_keys(kind) if len(path) <= 2 else ("type",))
        keys = ((*path, key) for key in table if key not in known)
        stale: list[KeyPath] = [key for key in keys if _is_older(merged, key, change)]
        stale += _stale_options(merged, (*path, "groups"), accepted, change) if path == ("optimizer",) else []
        for key in stale:
            holder = find(tree, key[:-1])
            if holder is not None:  # what is nested in a table that was left out went with it
                del holder[key[-1]]
        if stale:
            names = ", ".join(dotted(key[len(path) :]) for key in stale)
            warnings.append(
                f"{dotted(path)}: the type changed from {change.before!r} to {after!r}, which does not take "
                f"{names}: dropped"
            )
    return tree, tuple(warnings)


def _with_nested(
    tree: Mapping[str, Any], schemas: SchemaSource, type_of: TypeOf
) -> Iterator[tuple[Kind, KeyPath, Mapping[str, Any]]]:
    """Every component's table, and behind it those of the components nested in it."""
    pending = list(component_tables(tree))[::-1]
    while pending:
        kind, path, table = pending.pop()
        yield kind, path, table
        written = table.get("type", default_type(kind, str(path[-1])))
        name = type_of(path, written) if isinstance(written, str) else None
        arguments = schemas.nested(kind, name).items() if name else ()
        for argument, inner in arguments:
            for at in _typed_tables(table.get(argument), (*path, argument)):
                pending.append((inner, at, find(tree, at)))


def _typed_tables(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    """The outermost tables with a ``type`` at or below a value."""
    if isinstance(value, Mapping) and "type" in value:
        yield path
        return
    for part, child in children(value):
        yield from _typed_tables(child, (*path, part))


def last_change(history: tuple[tuple[int, str], ...], default: str | None) -> Change | None:
    """The last time that a table's ``type`` became another one; saying it for the first time is none."""
    change = None
    current = default
    for layer, name in history:
        if current is not None and name != current:
            change = Change(layer, current, name)
        current = name
    return change


def _is_older(merged: Merged, path: KeyPath, change: Change) -> bool:
    return merged.latest_layers[path] < change.layer


def _stale_options(
    merged: Merged, groups: KeyPath, accepted: frozenset[str], change: Change
) -> list[KeyPath]:
    """The same for the options of parameter groups, which are arguments of the optimizer too."""
    tables = find(merged.tree, groups)
    return [
        (*groups, number, key)
        for number, table in enumerate(tables if isinstance(tables, list) else [])
        for key in (table if isinstance(table, dict) else {})
        if key != "params" and key not in accepted and _is_older(merged, (*groups, number, key), change)
    ]
