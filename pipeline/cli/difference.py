"""What is different between two or more runs or configs, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.side import Side, with_defaults
from pipeline.config.compare import HOOKS_ORDER, Change, changes, environment_keys
from pipeline.config.keys import find

if TYPE_CHECKING:
    from pipeline.runs.record import Record

PATCH = "code.patch"
"""The key of a difference in uncommitted changes."""
NOT_COMPARED = "from the environment, not compared"

_LABELS = ("name", "components")
"""Config keys that make no difference: what a run is called, and where local files lie."""
_BASIS = ("python", "torch")
"""Versions that are the environment's; the others are those of components."""


@dataclass(frozen=True)
class Row:
    """One thing that the sides do not have in common."""

    key: str
    values: tuple[Any, ...]
    """Of each side, in order; None: it is not there, or not known."""
    percent: float | None = None
    """By how much the second of two numbers is above the first."""
    follows: str | None = None
    """The reference by which every side has the value, where it is the same: the cause is elsewhere."""


@dataclass(frozen=True)
class TextChange:
    """A local component file that two sides have otherwise."""

    name: str
    lines: tuple[str, ...]
    """As ``diff -u`` has them, less the two names."""


@dataclass(frozen=True)
class Difference:
    """What is different, section by section. Of a TOML file, which was not run, only config and local
    files are known; what is not known is not compared."""

    labels: tuple[str, ...]
    config: tuple[Row, ...]
    components: tuple[Row, ...]
    """Versions of the distributions that gave components, hashes of local files."""
    code: tuple[Row, ...]
    environment: tuple[Row, ...]
    result: tuple[Row, ...]
    """What came out, and how long it took; equal values too."""
    texts: tuple[TextChange, ...] = ()
    """What is different in local files, where there are two sides and their files can be read."""
    not_compared: tuple[str, ...] = ()
    """Config keys whose values come from the environment."""
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing but the results is different."""
        return not (self.config or self.components or self.code or self.environment)


def compare(sides: Sequence[Side]) -> Difference:
    """Compare two or more sides.

    A component's default that only one side has written out is no difference: where a TOML file
    lacks a key, its components' defaults are looked for, and only there. A file without a
    seed is what a run with a drawn one was asked for.
    """
    if any(_is_open(sides[0], other) for other in sides[1:]):
        sides = [with_defaults(side) for side in sides]
    if any(side.record is None and "seed" not in side.config for side in sides):
        sides = [_without_drawn_seed(side) for side in sides]
    records = [side.record for side in sides]
    not_compared = dict.fromkeys(key for side in sides for key in environment_keys(side.config))
    return Difference(
        labels=tuple(side.label for side in sides),
        config=(*_config(sides), *_differing(records, _first_weights)),
        components=tuple(_components(sides)),
        code=(*_differing(records, _code), *_patches(sides)),
        environment=tuple(_differing(records, _environment)),
        result=tuple(_results(sides)),
        texts=tuple(_texts(*sides)) if len(sides) == 2 else (),
        not_compared=tuple(not_compared),
        notes=tuple(_notes(sides)),
    )


def _is_open(first: Side, other: Side) -> bool:
    """Whether a difference may be a default that a TOML file leaves to its component."""
    if first.toml is None and other.toml is None:
        return False
    found = _changes(first, other)
    return any(None in (one.before, one.after) or one.is_from_environment for one in found)


def _without_drawn_seed(side: Side) -> Side:
    if side.record is None or not side.record.seed_drawn:
        return side
    return replace(side, config={key: value for key, value in side.config.items() if key != "seed"})


def _changes(first: Side, other: Side) -> list[Change]:
    return [one for one in changes(first.config, other.config) if one.key not in _LABELS]


def _config(sides: Sequence[Side]) -> Iterator[Row]:
    """The keys that some side has otherwise than the first; of nested keys the outermost.

    What only follows from another key comes after what does not.
    """
    yield from sorted(_config_rows(sides), key=lambda row: row.follows is not None)


def _config_rows(sides: Sequence[Side]) -> Iterator[Row]:
    keys = dict.fromkeys(one.key for other in sides[1:] for one in _changes(sides[0], other))
    for key in keys:
        if not any(key.startswith(f"{outer}.") for outer in keys if outer != HOOKS_ORDER):
            written = {side.references.get(key) for side in sides}
            follows = written.pop() if len(written) == 1 else None
            yield Row(key, tuple(_value(side.config, key) for side in sides), follows=follows)


def _value(config: Mapping[str, Any], key: str) -> Any:
    value = find(config, tuple(key.split(".")))
    return list(value) if key == HOOKS_ORDER and isinstance(value, Mapping) else value


def _components(sides: Sequence[Side]) -> Iterator[Row]:
    yield from _differing([side.record for side in sides], _distributions)
    names = dict.fromkeys(name for side in sides for name in side.files)
    for name in names:
        hashes = [side.files.get(name) for side in sides]
        if len({one for one in hashes if one}) > 1:  # a file that a side does not use is the config's matter
            yield Row(name, tuple(one and one[:12] for one in hashes))


def _distributions(record: Record) -> dict[str, Any]:
    return {name: version for name, version in record.versions.items() if name not in _BASIS}


def _texts(left: Side, right: Side) -> Iterator[TextChange]:
    for name in left.files.keys() & right.files.keys():
        if left.files[name] == right.files[name]:
            continue
        before, after = _lines_of(left.places[name]), _lines_of(right.places[name])
        if before and after:
            yield TextChange(name, tuple(unified_diff(before, after, lineterm="", n=1))[2:])


def _lines_of(path: Path) -> list[str]:
    """A file's lines; none where it is gone, which leaves its hash to be compared."""
    try:
        return path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _patches(sides: Sequence[Side]) -> Iterator[Row]:
    """The uncommitted changes, where runs of the same code were recorded with others."""
    if any(side.record is None or side.record.git is None for side in sides):
        return
    hashes = [side.patch and sha256(side.patch.read_bytes()).hexdigest()[:12] for side in sides]
    if len(set(hashes)) > 1:
        yield Row(PATCH, tuple(hashes))


def _first_weights(record: Record) -> dict[str, Any]:
    parent = record.parent
    return {"weights from": f"{parent.run}@{parent.checkpoint}"} if parent and parent.checkpoint else {}


def _code(record: Record) -> dict[str, Any]:
    git = record.git
    return {"commit": git.commit, "uncommitted changes": git.dirty} if git else {}


def _environment(record: Record) -> dict[str, Any]:
    basis = {name: record.versions.get(name) for name in _BASIS}
    placement = {name: getattr(record, name) for name in ("world_size", "threads", "device", "host")}
    return basis | placement


def _differing(
    records: Iterable[Record | None], facts_of: Callable[[Record], dict[str, Any]]
) -> Iterator[Row]:
    """The facts that are not the same in all runs; nothing is known of what was not run."""
    facts = [facts_of(record) if record else None for record in records]
    known = [one for one in facts if one is not None]
    for key in dict.fromkeys(key for one in known for key in one):
        if any(one.get(key) != known[0].get(key) for one in known):
            yield Row(key, tuple(one.get(key) if one else None for one in facts))


def _results(sides: Sequence[Side]) -> Iterator[Row]:
    records = [side.record for side in sides]
    if not any(records):
        return
    yield Row("status", tuple(record and record.status for record in records))
    yield _measured("steps", [record and record.steps for record in records])
    yield _measured("seconds", [side.seconds for side in sides])
    for name in dict.fromkeys(name for record in records if record for name in record.metrics):
        yield _measured(name, [record and record.metrics.get(name) for record in records])
    bests = [record.best if record else None for record in records]
    for name in dict.fromkeys(best.metric for best in bests if best):
        values = [best.value if best and best.metric == name else None for best in bests]
        yield _measured(f"best {name}", values)


def _measured(key: str, values: Sequence[Any]) -> Row:
    """A row of numbers, with the change in percent where there are two."""
    percent = None
    if len(values) == 2 and None not in values and values[0]:
        percent = 100 * (values[1] - values[0]) / abs(values[0])
    return Row(key, tuple(values), percent)


def _notes(sides: Sequence[Side]) -> Iterator[str]:
    yield from (side.note for side in sides if side.note)
    dirty = [side.label for side in sides if _is_dirty(side)]
    if dirty:
        yield f"the code of {', '.join(dirty)} had uncommitted changes that were not recorded, and may differ"


def _is_dirty(side: Side) -> bool:
    return bool(side.patch is None and side.record and side.record.git and side.record.git.dirty)
