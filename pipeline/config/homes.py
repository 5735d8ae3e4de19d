"""Where a misplaced key belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from pipeline.api.kinds import RULES
from pipeline.config.keys import KeyPath, dotted
from pipeline.config.outline import SETTINGS, TOP_LEVEL, component_tables, default_type
from pipeline.config.plan import Fault, SchemaSource


def with_home(homes: Mapping[str, KeyPath], table: KeyPath, fault: Fault) -> Fault:
    """The fault of an unknown key, saying in which table the key is valid if it is in another one.

    Args:
        homes: for each key the table that takes it.
    """
    key = str(fault.path[-1])
    if homes.get(key, table) != table:
        message = f"unknown key, which belongs under [{dotted(homes[key])}]"
        return replace(fault, message=message, expected="", nearest="")
    if table and key in TOP_LEVEL:
        return replace(fault, message="unknown key, which belongs to the top level", expected="", nearest="")
    return fault


def tables_with_keys(
    tree: Mapping[str, Any], schemas: SchemaSource
) -> Iterator[tuple[KeyPath, frozenset[str]]]:
    """Every table of this config with the keys that it takes."""
    for section, settings in SETTINGS.items():
        yield (section,), frozenset(field.name for field in fields(settings))
    for kind, path, table in component_tables(tree):
        yield path, frozenset(RULES[kind].engine_keys)
        name = table.get("type", default_type(kind, str(path[-1])))
        if isinstance(name, str):
            yield path, schemas.accepts(kind, name) or frozenset()
