"""metrics.jsonl: one line of JSON a row, appended."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline.errors import RunError
from pipeline.runs.files import reason, remedy, write_atomic

Row = dict[str, Any]
"""``step`` and ``epoch``, then values by name, then ``time`` in seconds since 1970."""

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has no words for these


class MetricLog:
    """Appends rows; what it has appended outlives the process, and after ``sync_rows`` the machine.

    A resumed run calls ``rewind`` first.

    Raises:
        RunError: if the file cannot be opened for appending.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise self._refused(error) from error

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row, which must have a ``step``; all of its line or, on failure, none.

        Raises:
            RunError: if it cannot be written.
        """
        line = format_row(row)
        end = self._file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(end)
            raise self._refused(error) from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> MetricLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refused(self, error: OSError) -> RunError:
        return RunError(f"{self.path}: cannot be written: {reason(error)}; {remedy(error)}")


def sync_rows(path: Path) -> None:
    """Force all rows to the disk; due before a checkpoint that counts on them. No file: no rows.

    Raises:
        RunError: if the disk fails.
    """
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: cannot be forced to the disk: {reason(error)}; {remedy(error)}") from error


def format_row(row: Mapping[str, Any]) -> bytes:
    """One line: ``step`` and ``epoch`` first, ``time`` last; valid JSON for every float."""
    first = {key: row[key] for key in ("step", "epoch") if key in row}
    last = {key: row[key] for key in ("time",) if key in row}
    ordered = first | {key: value for key, value in row.items() if key not in last} | last
    return (
        json.dumps({key: _to_json(value) for key, value in ordered.items()}, allow_nan=False).encode() + b"\n"
    )


def read_rows(path: Path) -> list[Row]:
    """All whole rows, oldest first; a last line that was torn by a kill is left out. No file: no rows.

    Raises:
        RunError: if the file cannot be read, or a line before the last is damaged.
    """
    log = _read(path)
    if log.damaged:
        raise log.damaged[0].error
    return log.rows


def rewind(
    path: Path,
    step: int,
    *,
    attempt: int,
    superseded: Path | None = None,
    on_damage: Callable[[RunError], object] = lambda error: None,
) -> int:
    """Move the rows past ``step``, and lines that are no rows, aside, so that no step appears twice.

    A torn last line is one of these, and so is one that was damaged since: it stops no resume. They
    are appended to metrics.superseded.jsonl, each as
    ``{"attempt": 1, "moved": time, "row": {...}}`` or with ``"torn": text``. A kill in between leaves
    them in both files and the next call moves them again.

    Args:
        step: rows up to it stay; -1 moves all.
        attempt: the attempt (from 1) that wrote the rows.
        superseded: where to; by default beside ``path``.
        on_damage: told what is wrong with each damaged line before the last, with file and line.

    Returns:
        How many rows were moved.

    Raises:
        RunError: if the log cannot be read, or something cannot be written.
    """
    log = _read(path)
    for line in log.damaged:
        on_damage(line.error)
    gone = [row for row in log.rows if row["step"] > step]
    torn = [line.text for line in log.damaged] + ([log.torn] if log.torn else [])
    if not gone and not torn and log.ends_whole:
        return 0
    mark = {"attempt": attempt, "moved": time.time()}
    moved = [{**mark, "row": {key: _to_json(value) for key, value in row.items()}} for row in gone]
    moved += [{**mark, "torn": text} for text in torn]
    aside = superseded or path.with_name("metrics.superseded.jsonl")
    try:
        with aside.open("ab") as file:
            file.writelines(json.dumps(line).encode() + b"\n" for line in moved)
            file.flush()
            os.fsync(file.fileno())
        write_atomic(path, b"".join(format_row(row) for row in log.rows if row["step"] <= step))
    except OSError as error:
        raise RunError(f"{path}: cannot be rewound: {reason(error)}; {remedy(error)}") from error
    return len(gone)


@dataclass(frozen=True)
class _Damaged:
    """A line before the last that is no row."""

    text: str
    error: RunError


@dataclass(frozen=True)
class _Log:
    rows: list[Row]
    damaged: list[_Damaged]
    torn: str
    """A last line that is no whole row."""
    ends_whole: bool
    """Whether the file ends with a line's end."""


def _read(path: Path) -> _Log:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _Log([], [], "", True)
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {reason(error)}") from error
    lines = content.split(b"\n")
    last = lines.pop()  # empty where the file ends with a line's end
    rows, damaged = [], []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_parse(line, f"{path}:{number}"))
        except RunError as error:
            damaged.append(_Damaged(line.decode(errors="replace"), error))
    if not last:
        return _Log(rows, damaged, "", True)
    try:
        return _Log([*rows, _parse(last, str(path))], damaged, "", False)
    except RunError:
        return _Log(rows, damaged, last.decode(errors="replace"), False)


def _parse(line: bytes, place: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{place}: is no row of metrics: {error}") from None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise RunError(f"{place}: is no row of metrics: expected an object with a whole number 'step'")
    return {key: _from_json(value) for key, value in row.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _from_json(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value
