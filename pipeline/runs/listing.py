"""The runs in a runs folder: as a table, and by reference."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from itertools import chain, repeat
from operator import is_
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.errors import RunError
from pipeline.runs.files import read_whole, reason
from pipeline.runs.index import load_index, stamp_of
from pipeline.runs.layout import CONFIG, RunFolder, copy_number, parse_folder_name
from pipeline.runs.shapes import PLAIN
from pipeline.runs.summary import Summary

_SHOWN = 5  # names in an error


class RunRow(NamedTuple):
    """One run, as a table shows it. A tuple, since thousands are made at once."""

    folder: RunFolder
    created: datetime
    """With a zone; of a broken run, what its folder tells."""
    summary: Summary | None
    """None: its record cannot be read, and ``problem`` says why."""
    status: str | None = None
    """As of now: a dead process is ``interrupted``. None where the record cannot be read."""
    seconds: float | None = None
    """Time spent in all attempts."""
    shape: Mapping[str, Any] = MappingProxyType({})
    """A config that has the same keys as the run's; the same object for many runs."""
    own: Mapping[str, Any] = MappingProxyType({})
    """The values of the run's config that are others than the shape's."""
    problem: str = ""
    """Why the folder, or its config, cannot be read."""

    @property
    def config(self) -> dict[str, Any]:
        """config.toml by full dotted key."""
        return {**self.shape, **self.own}

    @property
    def name(self) -> str:
        """The run's name as the user gave it, or the folder's where that is unknown."""
        return self.summary.name if self.summary else self.folder.name

    @property
    def steps(self) -> int | None:
        """Optimizer steps done."""
        return self.summary.steps if self.summary else None

    @property
    def metrics(self) -> Mapping[str, float]:
        """The last value of every metric."""
        return self.summary.metrics if self.summary else {}


def list_runs(runs_dir: Path) -> list[RunRow]:
    """All runs in a folder, the newest last; broken ones too, with their reason. No folder: no runs.

    What was read is kept in a cache file in ``runs_dir``, if it is much.

    Raises:
        RunError: if ``runs_dir`` is no folder or cannot be read.
    """
    index, rows = load_index(runs_dir), []
    for folder in run_folders(runs_dir):
        stamp = stamp_of(folder)
        entry = index.get(folder, stamp)
        if entry is not None:
            rows.append(_row(folder, entry.summary, entry.shape, entry.own))
            continue
        row = read_row(folder)
        if row.summary and stamp and not row.problem:
            entry = index.put(folder, stamp, row.summary, row.shape)
        if entry is not None:
            row = row._replace(shape=entry.shape, own=entry.own)
        rows.append(row)
    index.save(row.folder for row in rows)
    return sorted(rows, key=_age)


def run_folders(runs_dir: Path) -> list[RunFolder]:
    """The folders in ``runs_dir`` that are, or were meant to be, runs; in no particular order.

    Raises:
        RunError: if ``runs_dir`` is no folder or cannot be read.
    """
    try:
        with os.scandir(runs_dir) as found:
            folders = [one.name for one in found if not one.name.startswith(".") and one.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{runs_dir}: cannot be read: {reason(error)}") from error
    runs = ((name, RunFolder(runs_dir / name)) for name in folders)
    return [one for name, one in runs if copy_number(name) or _has_record(one)]


def read_row(folder: RunFolder) -> RunRow:
    """One run's row; whatever is wrong with its files becomes the row's ``problem``."""
    try:
        summary = _read(folder)
    except RunError as error:
        return RunRow(folder, _created_by_folder(folder), None, problem=str(error))
    config, problem = _read_config(folder)
    return _row(folder, summary, config, {}, problem)


def varying_keys(rows: Iterable[RunRow]) -> list[str]:
    """The config keys, in the files' order, that some of the rows have different or not at all.

    Rows without a readable config are left out of account.
    """
    tables: dict[int, tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = {}
    for row in rows:
        if row.shape:
            tables.setdefault(id(row.shape), (row.shape, []))[1].append(row.own)
    columns = [_columns(shape, owns) for shape, owns in tables.values()]
    return [key for key in dict.fromkeys(chain.from_iterable(columns)) if _varies(columns, key)]


def find_run(runs_dir: Path, ref: str) -> RunFolder:
    """The run that ``ref`` means: a path, a folder's name, a run's name (the newest), or a unique prefix.

    Raises:
        RunError: if there is none or several; it names the nearest.
    """
    direct = RunFolder(Path(ref))
    if "/" in ref or ref in (".", ".."):
        if not direct.path.is_dir():
            raise RunError(f"{ref}: is no folder; expected a run folder, or a run's name in {runs_dir}")
        _read(direct)
        return direct
    folders = run_folders(runs_dir)
    by_name = {one.name: one for one in folders}
    if ref in by_name:
        return by_name[ref]
    rows = sorted(map(_row_of_record, folders), key=_age)
    called = [row.folder for row in rows if row.summary and row.summary.name == ref]
    if called:
        return called[-1]
    if ref and _has_record(direct):
        return direct
    matches = [row.folder for row in rows if ref and row.folder.name.startswith(ref)]
    if len(matches) == 1:
        return matches[0]
    raise RunError(_not_found(runs_dir, ref, matches, rows))


def newest_of_identity(runs_dir: Path, identity: str, *, name: str | None = None) -> RunRow | None:
    """The newest run of the same experiment, or None.

    Args:
        name: look only at runs of this name.

    Raises:
        RunError: if ``runs_dir`` cannot be read.
    """
    rows = sorted(map(_row_of_record, run_folders(runs_dir)), key=_age)
    same = [
        row
        for row in rows
        if row.summary and row.summary.identity == identity and name in (None, row.summary.name)
    ]
    return read_row(same[-1].folder) if same else None


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts as one, by full dotted key; arrays stay values."""
    flat: dict[str, Any] = {}
    _add_flat(flat, "", table)
    return flat


def _add_flat(flat: dict[str, Any], prefix: str, table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            _add_flat(flat, f"{prefix}{key}.", value)
        else:
            flat[intern(prefix + key)] = value  # thousands of configs have the same keys: one text for all


def _row(
    folder: RunFolder, summary: Summary, shape: Mapping[str, Any], own: Mapping[str, Any], problem: str = ""
) -> RunRow:
    status = summary.status_now(folder)
    seconds = summary.seconds(folder, status)
    return RunRow(folder, summary.began, summary, status, seconds, shape, own, problem)


def _row_of_record(folder: RunFolder) -> RunRow:
    """As ``read_row``, without config and status: enough to find a run."""
    try:
        summary = _read(folder)
    except RunError as error:
        return RunRow(folder, _created_by_folder(folder), None, problem=str(error))
    return RunRow(folder, summary.began, summary)


def _read_config(folder: RunFolder) -> tuple[dict[str, Any], str]:
    import rtoml

    try:
        return flatten(rtoml.loads(_text_of(folder))), ""
    except OSError as error:
        return {}, f"{folder.config}: cannot be read: {reason(error)}"
    except (ValueError, RecursionError) as error:
        return {}, f"{folder.config}: is no valid TOML: {error}"


def _text_of(folder: RunFolder) -> str:
    """config.toml, its lines ended as Python ends them."""
    text = read_whole(f"{folder.path}/{CONFIG}").decode()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _age(row: RunRow) -> tuple[datetime, int, str]:
    return row.created, copy_number(row.folder.name), row.folder.name


def _created_by_folder(folder: RunFolder) -> datetime:
    parsed = parse_folder_name(folder.name)
    if parsed is not None:
        with suppress(ValueError, OverflowError):  # a year that no zone can be applied to
            return parsed.created.astimezone()
    return datetime.fromtimestamp(folder.path.stat().st_mtime).astimezone()


def _read(folder: RunFolder) -> Summary:
    from pipeline.runs.record import (
        read,
    )  # which takes long to import, and is not needed for what the index has

    return Summary.of(read(folder))


def _has_record(folder: RunFolder) -> bool:
    return folder.record.is_file()


def _columns(shape: Mapping[str, Any], owns: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[Any]]:
    """The values of runs of one shape by key; of a key that none has otherwise, the one value of all."""
    others = set().union(*owns)
    return {
        key: [own.get(key, value) for own in owns] if key in others else [value]
        for key, value in shape.items()
    }


def _varies(columns: Sequence[Mapping[str, Sequence[Any]]], key: str) -> bool:
    """Whether a key is not the same in all runs; those that have the same keys are a table of columns."""
    if not all(key in table for table in columns):
        return True
    first = columns[0][key][0]
    return not all(_is_all(table[key], first) for table in columns)


def _is_all(values: Sequence[Any], first: Any) -> bool:
    """Whether all are as the first is; as most are, found without a step of Python for each of thousands."""
    if all(map(is_, values, repeat(first))):
        return True
    kind = type(first)
    if kind in PLAIN and values.count(first) == len(values) and set(map(type, values)) == {kind}:
        return True
    wanted = _comparable(first)
    return all(_comparable(value) == wanted for value in values)


def _comparable(value: Any) -> Any:
    """Tells 1, 1.0 and true apart, and lets NaN equal itself."""
    kind = type(value)
    return (kind, value) if kind in PLAIN and value == value else (kind, repr(value))  # noqa: PLR0124


def _not_found(runs_dir: Path, ref: str, matches: list[RunFolder], rows: list[RunRow]) -> str:
    if matches:
        names = ", ".join(one.name for one in matches[-_SHOWN:])
        return f"{ref!r} begins the names of {len(matches)} runs in {runs_dir}; the newest are {names}"
    known = [text for row in rows for text in (row.name, row.folder.name)]
    nearest = get_close_matches(ref, dict.fromkeys(reversed(known)), n=_SHOWN, cutoff=0.5)
    if nearest:
        return f"no run {ref!r} in {runs_dir}; the nearest are {', '.join(nearest)}"
    newest = ", ".join(row.folder.name for row in rows[-_SHOWN:])
    return f"no run {ref!r} in {runs_dir}; " + (f"the newest are {newest}" if newest else "it has no runs")
