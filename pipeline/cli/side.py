"""One side of a comparison: a run, or a TOML file that was not run."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.references import recorded_references, references_in
from pipeline.config.keys import copied, find
from pipeline.errors import ConfigError, RunError

if TYPE_CHECKING:
    from pipeline.runs.layout import RunFolder
    from pipeline.runs.record import Record


@dataclass(frozen=True)
class Side:
    """What is known of one of the things that are compared."""

    label: str
    """A run folder's name, or a file as the user named it."""
    config: Mapping[str, Any]
    """The config's tree."""
    record: Record | None = None
    """None: it is a TOML file."""
    seconds: float | None = None
    """Time spent in all attempts of the run."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The sha256 of each local component file, by the file's name."""
    places: Mapping[str, Path] = field(default_factory=dict)
    """Where each of these files can be read."""
    patch: Path | None = None
    """The file of the code's uncommitted changes, if there were any."""
    references: Mapping[str, str] = field(default_factory=dict)
    """By key, what is given by reference to other keys, as it is written."""
    toml: Path | None = None
    """The TOML file, whose components' defaults are not filled in yet; None: nothing is to fill in."""
    note: str = ""
    """What hinders the comparison."""


def read_side(ref: str, runs_dir: Path) -> Side:
    """Read a run (by name, folder, or unique prefix) or a TOML file; no component is imported.

    Raises:
        ConfigError: if a TOML file cannot be read.
        RunError: if there is no such run, or its config cannot be read.
    """
    path = Path(ref)
    if path.suffix == ".toml" and not path.is_dir():
        return _of_toml(path)
    from pipeline.runs.listing import find_run

    try:
        folder = find_run(runs_dir, ref)
    except RunError:
        if path.is_dir() or not path.exists():
            raise
        is_file = path.is_file()
        what = "is no TOML file by its name" if is_file else "is a pipe or a device; save what it gives"
        raise RunError(f"{ref}: {what}; expected a run, its folder, or a file that ends in .toml") from None
    return _of_run(folder)


def with_defaults(side: Side) -> Side:
    """The side with its components' defaults; they are imported where their text does not tell.

    A file that does not validate here (a component that is not installed) stays as it is written.
    """
    if side.toml is None:
        return side
    from pipeline.cli.loading import load_with_registry, load_without_import

    try:
        config = load_without_import(side.toml) or load_with_registry(side.toml).config
    except ConfigError as error:
        first = str(error.problems[0]).splitlines()[0]
        note = (
            f"{side.label} is compared as it is written, without defaults, for it is not valid here: {first}"
        )
        return replace(side, toml=None, note=note)
    return replace(side, config=config.tree, toml=None)


def _of_run(folder: RunFolder) -> Side:
    from pipeline.runs.liveness import duration, status_now
    from pipeline.runs.record import read

    record = read(folder)
    try:
        tree = tomllib.loads(folder.config.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder.config}: cannot be read: {error}") from error
    files = {
        Path(str(row.get("target")).rpartition(":")[0]).name: str(row["file_hash"])
        for row in record.components
        if row.get("file_hash")
    }
    record = replace(record, status=status_now(folder, record))
    return Side(
        folder.name,
        tree,
        record,
        duration(folder, record),
        files,
        places={name: folder.source / name for name in files},
        patch=folder.patch if folder.patch.is_file() else None,
        references=recorded_references(folder.source, record.overrides),
    )


def _of_toml(path: Path) -> Side:
    """As it is written, with what it extends, and the engine's own defaults."""
    from pipeline.config.layers import read
    from pipeline.config.merge import merged_without_schemas
    from pipeline.config.outline import SETTINGS
    from pipeline.config.sections import check_settings

    layers = read(path)
    written = merged_without_schemas(layers)
    tree = _interpolated(written)
    tree.pop("vars", None)  # they are where they are used
    for section in SETTINGS:
        checked = check_settings(section, tree[section]) if _is_table(tree.setdefault(section, {})) else None
        if checked and not checked.faults:
            tree[section] = dict(checked.plain)
    sources = {source.path: source.text for source in layers.sources}
    files = {one.name: hashlib.sha256(sources[one]).hexdigest() for one in layers.components}
    places = {one.name: one for one in layers.components}
    return Side(str(path), tree, files=files, places=places, references=references_in(written), toml=path)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _interpolated(written: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with what refers to other keys resolved, as config.toml has it.

    What the environment gives stays as it is written, for it may be secret, and so does what cannot
    be resolved here. An array that holds such a text stays as a whole.
    """
    from pipeline.config.interpolation import interpolate

    interpolated = interpolate(written, lambda *problem: None)
    tree = interpolated.tree
    for path in (*interpolated.environment, *interpolated.broken):
        key = tuple(takewhile(lambda part: isinstance(part, str), path))
        holder, text = find(tree, key[:-1]), find(written, key)
        if _is_table(holder) and text is not None:
            holder[key[-1]] = copied(text)
    return tree
