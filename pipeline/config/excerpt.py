"""The line that a problem is about, with a caret under its column: for people at a terminal.

A line may hold more than the problem says, a password among it. So a text is shown only where the problem
says it too, and of a line that is no TOML nothing behind the character at fault.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.document import MAX_BYTES
from pipeline.config.positions import parsed
from pipeline.errors import Problem

if TYPE_CHECKING:
    from tree_sitter import Node

_PLACE = re.compile(r"(.+):(\d+):(\d+)")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*(?:"|$)|'[^']*(?:'|$)""")
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_INDENT = "    "
_TAB = 8  # cells that a tab takes at most


class Excerpts:
    """The lines of files that problems are about; each file is read once."""

    def __init__(self, width: int) -> None:
        self._width = width
        """Cells of a terminal's line."""
        self._files: dict[str, _File | None] = {}

    def of(self, problem: Problem) -> str:
        """The source line and the caret below it; empty where no line of a file is at fault."""
        found = _PLACE.fullmatch(problem.place)
        if found is None:
            return ""
        name, row, column = found[1], int(found[2]) - 1, int(found[3]) - 1
        if name not in self._files:
            self._files[name] = _read(name)
        file = self._files[name]
        if file is None or row >= len(file.lines):
            return ""
        parts = file.around_fault(row, column) if file.is_damaged else file.around(row, column, str(problem))
        return _pointed(*parts, self._width - len(_INDENT)) if parts else ""


@dataclass(frozen=True)
class _File:
    data: bytes
    """With its line breaks as ``\\n``."""

    @cached_property
    def lines(self) -> list[str]:
        return self.data.decode(errors="replace").split("\n")

    def around(self, row: int, column: int, said: str) -> tuple[str, str]:
        """What a line has before a column and from there on, less what the problem does not say."""
        line = self.lines[row]
        cuts = [cut for cut in self._texts if cut.row <= row <= cut.last_row and not cut.is_said(said)]
        return _without(line[:column], cuts, row, 0), _without(line[column:], cuts, row, column)

    def around_fault(self, row: int, column: int) -> tuple[str, str] | None:
        """The same of a file that is no TOML; None within a text of several lines, and at the file's end."""
        line, above = self.lines[row], "\n".join(self.lines[:row])
        is_inside = sum(above.count(quotes) for quotes in ('"""', "'''")) % 2
        if is_inside or (column >= len(line) and row == len(self.lines) - 1):
            return None
        fault = line[column : column + 1]
        return _QUOTED.sub(f'"{_CUT}"', line[:column]), f"{fault}{_CUT}" if fault else ""

    @cached_property
    def is_damaged(self) -> bool:
        return parsed(self.data).has_error

    @cached_property
    def _texts(self) -> list[_Text]:
        """The texts and comments of the file."""
        return [_Text.of(node, self.data) for node in _leaves(parsed(self.data))]


@dataclass(frozen=True)
class _Text:
    """A text value, or a comment, and where it stands; columns in characters."""

    row: int
    column: int
    last_row: int
    last_column: int
    value: str | None
    """None: a comment."""

    @classmethod
    def of(cls, node: Node, data: bytes) -> _Text:
        row, last_row = node.start_point[0], node.end_point[0]
        start = _characters(data, node.start_byte, node.start_point[1])
        end = _characters(data, node.end_byte, node.end_point[1])
        text = (node.text or b"").decode(errors="replace")
        value = tomllib.loads(f"value = {text}")["value"] if node.type == "string" else None
        return cls(row, start, last_row, end, value)

    def is_said(self, said: str) -> bool:
        return self.value is not None and (self.value in said or repr(self.value)[1:-1] in said)


def _characters(data: bytes, at: int, column: int) -> int:
    return len(data[at - column : at].decode(errors="replace"))


def _leaves(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in ("string", "comment"):
            yield node
        else:
            pending += node.named_children


def _read(name: str) -> _File | None:
    try:
        with Path(name).open("rb") as file:
            return _File(file.read(MAX_BYTES).replace(b"\r\n", b"\n"))
    except OSError:  # it is gone by now: the problem is told without its line
        return None


def _without(part: str, cuts: list[_Text], row: int, offset: int) -> str:
    """A part of a line, which begins at a column, with an ellipsis for each text that is cut."""
    shown, done = "", 0
    for cut in sorted(cuts, key=lambda cut: (cut.row, cut.column)):
        start = (cut.column if cut.row == row else 0) - offset
        end = (cut.last_column if cut.last_row == row else offset + len(part)) - offset
        if 0 <= start < len(part):
            shown += part[done:start] + (f'"{_CUT}"' if cut.value is not None else "")
            done = end
    return shown + part[done:]


def _pointed(before: str, after: str, width: int) -> str:
    """Both parts of a line, cut to a width in cells around the caret, which stands below the second."""
    if _cells(before) > width // 2:
        before = _CUT + _last(before, width // 2 - 1)
    room = width - _cells(before)
    if _cells(after) > room:
        after = _first(after, room - 1) + _CUT
    shown = "".join(_printable(character) for character in before + after)
    pad = "".join("\t" if character == "\t" else " " * _cells(character) for character in before)
    return f"{_INDENT}{shown.rstrip()}\n{_INDENT}{pad}^"


def _printable(character: str) -> str:
    return character if character.isprintable() or character == "\t" else "?"


def _cells(text: str) -> int:
    """How many cells of a terminal a text takes; a tab the most that it can."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if character == "\t":
        return _TAB
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _first(text: str, cells: int) -> str:
    end = 0
    while end < len(text) and (cells := cells - _width(text[end])) >= 0:
        end += 1
    return text[:end]


def _last(text: str, cells: int) -> str:
    return _first(text[::-1], cells)[::-1]
