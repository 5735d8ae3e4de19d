"""Merging the layers of a config into one tree that remembers where everything was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.config.keys import KeyPath, dotted, find, walk
from pipeline.config.layers import Layer, Layers
from pipeline.config.overrides import Override
from pipeline.config.plan import Place
from pipeline.config.report import Report
from pipeline.config.tracked import Origin, TrackedTree
from pipeline.config.wording import nearest, show

_LENGTHS = (("train", "epochs"), ("train", "steps"))
"""The two ways to say how long; a later layer that says one takes the other back."""
_OF_FILES = {
    "extends": "files cannot be extended by an override",
    "unset": "keys are taken out by --unset, or by unset = [...] in a file",
    "set": "an override cannot hold others",
}


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
    merging.tracked.origins[()] = Origin(0, Place(main.file, 1, 1), main.folder)
    for number, layer in enumerate(layers.files):
        merging.layer(number, layer)
    merging.unset(layers.overrides)
    merging.set(layers.overrides, len(layers.files), layers.working_folder)
    tracked = merging.tracked
    types = {path: tuple(history) for path, history in tracked.types.items()}
    return Merged(tracked.tree, tracked.origins, types)


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
    tracked: TrackedTree = field(default_factory=TrackedTree)

    def layer(self, number: int, layer: Layer) -> None:
        """Merge one file over what is there: what it takes out goes first, what it sets comes last."""

        def origin(path: KeyPath) -> Origin:
            place = layer.places.get(path, Place(layer.file, 1, 1))
            return Origin(number, place, layer.folder)

        self.unset(layer.edits)
        self._replace_length([path for path, _ in walk(layer.tree, ())])
        for key, value in layer.tree.items():
            self.tracked.put((key,), value, origin)
        self.set(layer.edits, number, layer.folder)

    def unset(self, overrides: Sequence[Override]) -> None:
        """Take out what overrides say, by positions as they are now."""
        unsets = [override for override in overrides if override.kind == "unset"]
        for override in sorted(unsets, key=lambda unset: _from_behind(unset.key), reverse=True):
            self._unset(override.key, override.place)

    def set(self, overrides: Sequence[Override], number: int, folder: Path) -> None:
        """Merge what overrides set and append, as a part of one layer."""
        sets = [override for override in overrides if override.kind != "unset"]
        written = [path for o in sets for path in (o.key, *(below for below, _ in walk(o.value, o.key)))]
        self._replace_length(written)
        for override in sets:
            if override.key[0] in _OF_FILES:
                self.report.add(override.place, override.key[0], _OF_FILES[override.key[0]])
                continue
            self._set(override, Origin(number, override.place, folder))

    def _replace_length(self, paths: list[KeyPath]) -> None:
        said = [path for path in _LENGTHS if path in paths]
        if len(said) == 1:
            (other,) = (path for path in _LENGTHS if path not in said)
            train = self.tracked.tree.get("train")
            if isinstance(train, dict) and other[-1] in train:
                self.tracked.remove(other)

    def _set(self, override: Override, origin: Origin) -> None:
        node: Any = self.tracked.tree
        path: KeyPath = ()
        for name in override.key:
            if not isinstance(node, dict | list):
                message = f"{dotted(path)} is {show(node)}, which has no {name!r} inside"
                self.report.add(override.place, dotted(override.key), message)
                return
            part = _part(node, name)
            if part is None:
                message = f"{dotted(path)} has no element {name!r}"
                expected = f"a position below {len(node)}, or {dotted(path)}+=VALUE to append"
                self.report.add(override.place, dotted(override.key), message, expected=expected)
                return
            path = (*path, part)
            if len(path) < len(override.key) and isinstance(node, dict) and part not in node:
                self.tracked.put(path, {}, lambda _: origin)
            node = find(node, (part,))
        if override.kind == "set":
            self.tracked.put(path, override.value, lambda _: origin)
        elif node is None or isinstance(node, list):
            items = override.value if isinstance(override.value, list) else [override.value]
            self.tracked.append(path, items, lambda _: origin)
        else:
            message = f"is {show(node)}, to which nothing can be appended"
            self.report.add(override.place, dotted(override.key), message, expected="an array")

    def _unset(self, key: tuple[str, ...], place: Place) -> None:
        node: Any = self.tracked.tree
        path: KeyPath = ()
        for name in key:
            part = _part(node, name) if isinstance(node, dict | list) else None
            if part is None or (isinstance(node, dict) and part not in node):
                near = nearest(name, node) if isinstance(node, dict) else ""
                self.report.add(
                    place,
                    dotted(key),
                    "there is no such key to take out",
                    nearest=dotted((*path, near)) if near else "",
                )
                return
            path, node = (*path, part), node[part]
        self.tracked.remove(path)


def _from_behind(key: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """For sorting: the later positions of an array are greater, so that they can be taken out first."""
    return tuple((int(name), "") if name.isdecimal() and name.isascii() else (-1, name) for name in key)


def _part(node: dict[str, Any] | list[Any], name: str) -> str | int | None:
    """A name as a key of a table, or as the position of an element that an array has."""
    if isinstance(node, dict):
        return name
    is_position = name.isdecimal() and name.isascii() and len(name) < 10
    return int(name) if is_position and int(name) < len(node) else None
