"""A tree that remembers where each of its values was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pipeline.config.keys import KeyPath, copied, find, walk
from pipeline.config.plan import Place


@dataclass(frozen=True)
class Origin:
    """Where a value of the merged tree comes from."""

    layer: int
    place: Place
    folder: Path
    """What it is relative to, if it is a relative path."""


OriginOf: TypeAlias = Callable[[KeyPath], Origin]
"""Gives where the value at a path of a layer was written."""
T = TypeVar("T")


@dataclass
class TrackedTree:
    """Tables and arrays that layers are merged into."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    types: dict[KeyPath, list[tuple[int, str]]] = field(default_factory=dict)
    """For each table with a ``type``: the layers that set it, and to what."""

    def put(self, path: KeyPath, value: Any, origin: OriginOf) -> None:
        """Put a value where a table or array is around it: tables merge, everything else replaces."""
        holder, part = find(self.tree, path[:-1]), path[-1]
        is_new = isinstance(holder, dict) and part not in holder
        there = None if is_new else holder[part]
        if isinstance(value, Mapping):
            if not isinstance(there, dict):
                self._forget(path, there)
                holder[part] = {}
                self.origins[path] = origin(path)
            for key, child in value.items():
                self.put((*path, key), child, origin)
            return
        if not is_new:
            self._forget(path, there)
        holder[part] = copied(value)
        self._remember(path, value, origin)

    def append(self, path: KeyPath, items: list[Any], origin: OriginOf) -> None:
        """Append to the array at ``path``, which is made where it is not there."""
        array = find(self.tree, path)
        if array is None:
            array = find(self.tree, path[:-1])[path[-1]] = []
            self.origins[path] = origin(path)
        for number, item in enumerate(items):
            at = (*path, len(array))
            array.append(copied(item))
            self._remember(at, item, _at_number(number, path, origin))

    def remove(self, path: KeyPath) -> None:
        """Take a value out; the elements of an array behind it move up."""
        holder, part = find(self.tree, path[:-1]), path[-1]
        self._forget(path, holder.pop(part))
        if isinstance(part, int):
            _move_up(self.origins, path[:-1], part)
            _move_up(self.types, path[:-1], part)

    def _remember(self, path: KeyPath, value: Any, origin: OriginOf) -> None:
        for below, inner in ((path, value), *walk(value, path)):
            self.origins[below] = origin(below)
            if below[-1] == "type" and isinstance(inner, str):
                self.types.setdefault(below[:-1], []).append((origin(below).layer, inner))

    def _forget(self, path: KeyPath, value: Any) -> None:
        """Forget where ``value``, which stood at ``path``, and all inside it came from."""
        for gone in (path, *(below for below, _ in walk(value, path))):
            self.origins.pop(gone, None)
            self.types.pop(gone, None)


def _at_number(number: int, array: KeyPath, origin: OriginOf) -> OriginOf:
    """Where an element was written that was ``number`` in its own layer, whatever it is now."""
    return lambda path: origin((*array, number, *path[len(array) + 1 :]))


def _move_up(remembered: dict[KeyPath, T], array: KeyPath, removed: int) -> None:
    """Renumber what is remembered of an array's elements behind one that was removed."""
    depth = len(array)
    for path in list(remembered):
        part = path[depth] if len(path) > depth and path[:depth] == array else None
        if isinstance(part, int) and part > removed:
            remembered[*array, part - 1, *path[depth + 1 :]] = remembered.pop(path)
