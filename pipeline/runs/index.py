"""A cache of what was read of the runs in a folder, so that a listing reads only what is new.

The file lies in the runs folder and may be deleted at any time. An entry counts as long as size and
time of the run's two files are what they were; a file that cannot be read, or was written by another
version, is as good as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pipeline.runs.files import write_atomic
from pipeline.runs.layout import CONFIG, RECORD, RunFolder
from pipeline.runs.shapes import Shapes
from pipeline.runs.summary import Summary

NAME = ".listing.json"
FORMAT = 3

_WORTH_IT = 100  # runs that had to be read

Stamp: TypeAlias = list[int]
"""Number, size and time of change of run.json and of config.toml."""


def stamp_of(folder: RunFolder) -> Stamp | None:
    """The state of a run's two files; None where one is missing."""
    path = str(folder.path)
    try:  # as texts: with thousands of runs the Path objects take longer than the calls
        found = [os.stat(f"{path}/{RECORD}"), os.stat(f"{path}/{CONFIG}")]  # noqa: PTH116
    except OSError:
        return None
    return [number for one in found for number in (one.st_ino, one.st_size, one.st_mtime_ns)]


class Entry(NamedTuple):
    """What was read of one run without trouble."""

    stamp: Stamp
    summary: Summary
    shape: Mapping[str, Any]
    """A config, by full dotted key, that has the same keys as the run's."""
    own: Mapping[str, Any]
    """The values of the run's config that are others than the shape's."""


@dataclass
class Index:
    """Entries by folder name, as the cache file had them and as a listing adds to them."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    shapes: Shapes = field(default_factory=Shapes)
    added: int = 0

    def get(self, folder: RunFolder, stamp: Stamp | None) -> Entry | None:
        """The entry of a folder whose files are still what they were."""
        entry = self.entries.get(folder.name)
        return entry if entry is not None and entry.stamp == stamp else None

    def put(
        self, folder: RunFolder, stamp: Stamp, summary: Summary, config: Mapping[str, Any]
    ) -> Entry | None:
        """Make the entry of a folder; None where JSON cannot hold the config, which is read each time."""
        split = self.shapes.split(config)
        if split is None:
            return None
        entry = self.entries[folder.name] = Entry(stamp, summary, *split)
        self.added += 1
        return entry

    def save(self, folders: Iterable[RunFolder]) -> None:
        """Write the entries of the runs that are still there, if reading them again would take its time."""
        if self.added < _WORTH_IT:
            return
        names = {one.name for one in folders}
        kept = {name: entry for name, entry in self.entries.items() if name in names}
        with suppress(OSError):  # a folder that cannot be written has no cache
            write_atomic(self.path, _written(kept))


def load_index(runs_dir: Path) -> Index:
    """The cache of a runs folder, empty where there is none."""
    path = runs_dir / NAME
    try:
        entries = _read(json.loads(path.read_bytes()))
        shapes = {id(entry.shape): entry.shape for entry in entries.values()}
        return Index(path, entries, Shapes(shapes.values()))
    except (OSError, ValueError, TypeError, KeyError, IndexError):  # none, or not one of ours: made anew
        return Index(path)


def _read(document: Any) -> dict[str, Entry]:
    if document["format"] != FORMAT:
        return {}
    shapes, runs = document["shapes"], document["runs"]
    if not all(type(one) is dict for one in (runs, *shapes)):
        raise TypeError("expected tables")
    return {
        name: Entry(stamp, Summary(*summary), shapes[shape], _known(own, shapes[shape]))
        for name, (stamp, summary, shape, own) in runs.items()
    }


def _known(own: dict[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a run, if each is of a key that its shape has."""
    if type(own) is not dict or not own.keys() <= shape.keys():
        raise TypeError("expected a table with keys of the shape's")
    return own


def _written(entries: Mapping[str, Entry]) -> bytes:
    shapes = {id(entry.shape): entry.shape for entry in entries.values()}
    numbers = {shape: number for number, shape in enumerate(shapes)}
    runs = {
        name: (stamp, summary, numbers[id(shape)], own)
        for name, (stamp, summary, shape, own) in entries.items()
    }
    document = {"format": FORMAT, "shapes": list(shapes.values()), "runs": runs}
    return json.dumps(document, separators=(",", ":")).encode()
