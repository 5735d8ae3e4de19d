"""Merging the layers of a config into one tree that remembers where everything was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.config.keys import KeyPath, copied, dotted, find, walk
from pipeline.config.layers import Layer, Layers
from pipeline.config.overrides import Override
from pipeline.config.plan import Place
from pipeline.config.report import Report
from pipeline.config.wording import nearest, show

_LENGTHS = (("train", "epochs"), ("train", "steps"))
"""The two ways to say how long; a later layer that says one takes the other back."""


@dataclass(frozen=True)
class Origin:
    """Where a value of the merged tree comes from."""

    layer: int
    place: Place
    folder: Path
    """What it is relative to, if it is a relative path."""


@dataclass(frozen=True)
class Merged:
    """One tree made of all layers."""

    tree: dict[str, Any]
    origins: Mapping[KeyPath, Origin]
    """Of every table, array and value; a table's is where it was written first."""
    types: Mapping[KeyPath, tuple[tuple[int, str], ...]]
    """For each table with a ``type``: the layers that set it, and to what."""

    def origin(self, path: KeyPath) -> Origin:
        """Where ``path``, or else the nearest table around it, was written."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        raise KeyError(path)  # the root always has an origin

    @cached_property
    def latest_layers(self) -> Mapping[KeyPath, int]:
        """For each path the last layer that wrote it or anything below it."""
        latest: dict[KeyPath, int] = {}
        for path, origin in self.origins.items():
            for length in range(len(path) + 1):
                latest[path[:length]] = max(origin.layer, latest.get(path[:length], -1))
        return latest


def merge(layers: Layers, report: Report) -> Merged:
    """Later layers win; tables merge and arrays replace; overrides come last."""
    merging = _Merging(report)
    main = layers.files[-1]
    merging.origins[()] = Origin(0, Place(main.file, 1, 1), main.folder)
    for number, layer in enumerate(layers.files):
        merging.layer(number, layer)
    merging.overrides(len(layers.files), layers)
    types = {path: tuple(history) for path, history in merging.types.items()}
    return Merged(merging.tree, merging.origins, types)


def merged_without_schemas(layers: Layers) -> dict[str, Any]:
    """The merged tree as written: not validated, no defaults, interpolations unresolved.

    Raises:
        ConfigError: if the layers do not fit together.
    """
    report = Report.of(layers.findings)
    merged = merge(layers, report)
    report.raise_if_any(layers.chains)
    return merged.tree


@dataclass
class _Merging:
    report: Report
    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    types: dict[KeyPath, list[tuple[int, str]]] = field(default_factory=dict)

    def layer(self, number: int, layer: Layer) -> None:
        """Merge one file over what is there."""

        def origin(path: KeyPath) -> Origin:
            place = layer.places.get(path, Place(layer.file, 1, 1))
            return Origin(number, place, layer.folder)

        self._replace_length([path for path, _ in walk(layer.tree, ())])
        for key, value in layer.tree.items():
            self._put((key,), self.tree, value, origin)

    def overrides(self, number: int, layers: Layers) -> None:
        """Merge all overrides, as one layer."""
        sets = [override for override in layers.overrides if override.kind == "set"]
        for override in layers.overrides:
            if override.kind == "unset":
                self._unset(override)
        written = [path for o in sets for path in (o.key, *(below for below, _ in walk(o.value, o.key)))]
        self._replace_length(written)
        for override in sets:
            if override.key[0] == "extends":
                self.report.add(override.place, "extends", "files cannot be extended from the command line")
                continue
            self._set(override, Origin(number, override.place, layers.working_folder))

    def _replace_length(self, paths: list[KeyPath]) -> None:
        said = [path for path in _LENGTHS if path in paths]
        if len(said) == 1:
            (other,) = (path for path in _LENGTHS if path not in said)
            train = self.tree.get("train")
            if isinstance(train, dict) and other[-1] in train:
                self._forget(other, train.pop(other[-1]))

    def _set(self, override: Override, origin: Origin) -> None:
        node: Any = self.tree
        path: KeyPath = ()
        for name in override.key:
            if not isinstance(node, dict | list):
                message = f"{dotted(path)} is {show(node)}, which has no {name!r} inside"
                self.report.add(override.place, dotted(override.key), message)
                return
            part = _part(node, name)
            if part is None:
                message = f"{dotted(path)} has no element {name!r}"
                self.report.add(
                    override.place, dotted(override.key), message, expected=f"a position below {len(node)}"
                )
                return
            path = (*path, part)
            if len(path) < len(override.key):
                if isinstance(node, dict) and part not in node:
                    self._put(path, node, {}, lambda _: origin)
                node = find(node, (part,))
        self._put(path, node, override.value, lambda _: origin)

    def _unset(self, override: Override) -> None:
        node: Any = self.tree
        for depth, name in enumerate(override.key):
            if not isinstance(node, dict) or name not in node:
                names = list(node) if isinstance(node, dict) else []
                near = nearest(name, names)
                self.report.add(
                    override.place,
                    dotted(override.key),
                    "there is no such key to take out",
                    nearest=dotted((*override.key[:depth], near)) if near else "",
                )
                return
            if depth == len(override.key) - 1:
                self._forget(override.key, node.pop(name))
            else:
                node = node[name]

    def _put(self, path: KeyPath, holder: Any, value: Any, origin: Callable[[KeyPath], Origin]) -> None:
        """Put a value into its table or array: tables merge, everything else replaces."""
        part = path[-1]
        is_new = isinstance(holder, dict) and part not in holder
        there = None if is_new else holder[part]
        if isinstance(there, dict) and isinstance(value, Mapping):
            for key, child in value.items():
                self._put((*path, key), there, child, origin)
            return
        if not is_new:
            self._forget(path, there)
        if isinstance(value, Mapping):
            holder[part] = {}
            self.origins[path] = origin(path)
            for key, child in value.items():
                self._put((*path, key), holder[part], child, origin)
            return
        holder[part] = copied(value)
        for below, inner in ((path, value), *walk(value, path)):
            self.origins[below] = origin(below)
            if below[-1] == "type" and isinstance(inner, str):
                self.types.setdefault(below[:-1], []).append((origin(below).layer, inner))

    def _forget(self, path: KeyPath, value: Any) -> None:
        """Forget where ``value``, which stood at ``path``, and all inside it came from."""
        for gone in (path, *(below for below, _ in walk(value, path))):
            self.origins.pop(gone, None)
            self.types.pop(gone, None)


def _part(node: dict[str, Any] | list[Any], name: str) -> str | int | None:
    """A name as a key of a table, or as the position of an element that an array has."""
    if isinstance(node, dict):
        return name
    return int(name) if name.isdecimal() and name.isascii() and int(name) < len(node) else None
