"""What becomes of a component's arguments when a later layer changes its ``type``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.config.keys import KeyPath, copied, dotted, find
from pipeline.config.merge import Merged
from pipeline.config.outline import component_tables, default_type, own_keys
from pipeline.config.plan import SchemaSource


@dataclass(frozen=True)
class Change:
    """A ``type`` that is not the one an earlier layer gave."""

    layer: int
    before: str
    after: str


def drop_stale_arguments(
    merged: Merged, schemas: SchemaSource, type_of: Callable[[KeyPath, str], str | None]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Leave out arguments from before a change of ``type`` that the new component does not take.

    What the layer of the new ``type`` or a later one sets stays, known or not.

    Args:
        type_of: the final ``type`` of the table at a path, given as it is written; None where it
            cannot be told.

    Returns:
        The tree without them, and one warning for each table that lost some.
    """
    tree = copied(merged.tree)
    warnings = []
    for kind, path, table in component_tables(merged.tree):
        change = last_change(merged.types.get(path, ()), default_type(kind, str(path[-1])))
        after = type_of(path, change.after) if change else None
        if change is None or after is None:
            continue
        accepted = schemas.accepts(kind, after)
        if accepted is None:
            continue
        known = accepted | set(own_keys(kind))
        keys = ((*path, key) for key in table if key not in known)
        stale: list[KeyPath] = [key for key in keys if _is_older(merged, key, change)]
        stale += _stale_options(merged, (*path, "groups"), accepted, change) if path == ("optimizer",) else []
        for key in stale:
            del find(tree, key[:-1])[key[-1]]
        if stale:
            names = ", ".join(dotted(key[len(path) :]) for key in stale)
            warnings.append(
                f"{dotted(path)}: the type changed from {change.before!r} to {after!r}, which does not take "
                f"{names}: dropped"
            )
    return tree, tuple(warnings)


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
