"""Paths of keys in a config tree, and the walk over all of its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Names of tables and keys, and positions in arrays: ``("optimizer", "groups", 0, "params")``."""


def dotted(path: KeyPath) -> str:
    """The path as it is written: ``optimizer.groups.0.params``."""
    return ".".join(str(part) for part in path)


def children(value: Any) -> Iterator[tuple[str | int, Any]]:
    """The members of a table or an array, with their key or position; nothing for a scalar."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def walk(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value below ``value``, tables and arrays before their members, in order."""
    for part, child in children(value):
        yield (*path, part), child
        yield from walk(child, (*path, part))


def find(tree: Any, path: KeyPath) -> Any:
    """The value at ``path``; None where there is none (TOML has no null)."""
    node = tree
    for part in path:
        if isinstance(node, Mapping):
            node = node.get(part)
        elif isinstance(node, list | tuple) and isinstance(part, int) and 0 <= part < len(node):
            node = node[part]
        else:
            return None
    return node


def under(path: KeyPath, ancestor: KeyPath) -> bool:
    """Whether ``path`` is ``ancestor`` or lies below it."""
    return path[: len(ancestor)] == ancestor


def copied(value: Any) -> Any:
    """Tables and arrays copied through, so that the copy can be changed; scalars are shared."""
    if isinstance(value, Mapping):
        return {key: copied(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [copied(child) for child in value]
    return value
