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
from pipeline.runs.summary import Summary

NAME = ".listing.json"
FORMAT = 2

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
    config: Mapping[str, Any]
    """config.toml by full dotted key."""


@dataclass
class Index:
    """Entries by folder name, as the cache file had them and as a listing adds to them."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    added: int = 0

    def get(self, folder: RunFolder, stamp: Stamp | None) -> Entry | None:
        """The entry of a folder whose files are still what they were."""
        entry = self.entries.get(folder.name)
        return entry if entry is not None and entry.stamp == stamp else None

    def put(self, folder: RunFolder, entry: Entry) -> None:
        self.entries[folder.name] = entry
        self.added += 1

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
        return Index(path, _read(json.loads(path.read_bytes())))
    except (OSError, ValueError, TypeError, KeyError, IndexError):  # none, or not one of ours: made anew
        return Index(path)


def _read(document: Any) -> dict[str, Entry]:
    if document["format"] != FORMAT:
        return {}
    shapes = document["shapes"]
    return {
        name: Entry(stamp, Summary(*summary), shapes[shape] | own)
        for name, (stamp, summary, shape, own) in document["runs"].items()
    }


def _written(entries: Mapping[str, Entry]) -> bytes:
    """Of configs with the same keys the first is written whole, of the others what differs from it."""
    numbers: dict[tuple[str, ...], int] = {}
    shapes: list[Mapping[str, Any]] = []
    runs = {}
    for name, entry in entries.items():
        number = numbers.setdefault(tuple(entry.config), len(shapes))
        if number == len(shapes):
            shapes.append(entry.config)
        pairs = zip(entry.config.items(), shapes[number].values(), strict=True)
        own = {
            key: value
            for (key, value), first in pairs
            if value is not first and (value != first or _is_other(value, first))
        }
        runs[name] = [entry.stamp, entry.summary, number, own]
    return json.dumps({"format": FORMAT, "shapes": shapes, "runs": runs}, separators=(",", ":")).encode()


def _is_other(one: Any, equal: Any) -> bool:
    """Tells 1, 1.0 and true apart, inside an array too."""
    return type(one) is not type(equal) or (type(one) is list and repr(one) != repr(equal))
