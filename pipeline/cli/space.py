"""``--search KEY=SPACE``: what Optuna may choose from.

optimizer.lr=log(1e-4, 1e-1)     a number between the two, its logarithm evenly
optimizer.momentum=float(0, 1)   a number between the two
seed=int(0, 9)                   a whole number, 0 and 9 included
model.hidden=[64],[128, 64]      one of these, written as for --grid
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pipeline.cli.grid import Axis, read_axis
from pipeline.errors import ConfigError, Problem

_KINDS = ("int", "float", "log")
_EXPECTED = "KEY=V1,V2 or KEY=int(LOW, HIGH), float(LOW, HIGH), log(LOW, HIGH)"
_CALL = re.compile(r"(?P<key>[^=]*\S[^=]*)=\s*(?P<kind>\w+)\s*\((?P<ends>[^()]*)(?P<closed>\)?)\s*")


@dataclass(frozen=True)
class Interval:
    """A key whose value is a number between two, both included."""

    key: str
    kind: str
    """int, float, or log: a float whose logarithm is drawn evenly."""
    low: float
    high: float

    @property
    def overrides(self) -> list[str]:
        """The two ends, as ``--set`` takes them."""
        return [f"{self.key}={self.low!r}", f"{self.key}={self.high!r}"]


Dimension: TypeAlias = Axis | Interval
"""One key and what it may be: one of some values, or a number between two."""


def read_space(texts: Sequence[str]) -> list[Dimension]:
    """The dimensions, in the order in which they are given.

    Raises:
        ConfigError: with all faults at once, each with its column in the text.
    """
    problems: list[Problem] = []
    space: dict[str, Dimension] = {}
    for text in texts:
        try:
            one = _read(text)
        except ValueError as fault:
            problems.append(Problem("--search", "", f"{text!r}: {fault}", _EXPECTED))
            continue
        if one.key in space:
            problems.append(Problem("--search", one.key, "is given twice", "one --search of a key"))
        space[one.key] = one
    if problems:
        raise ConfigError(problems)
    return list(space.values())


def _read(text: str) -> Dimension:
    """Raises ValueError, saying what is wrong, and for an interval at which column, from 1."""
    call = _CALL.fullmatch(text)
    if call is None:
        return read_axis(text)
    kind = call["kind"]
    if kind not in _KINDS:
        raise ValueError(f"column {call.start('kind') + 1}: {kind!r} is none of {', '.join(_KINDS)}")
    if not call["closed"]:
        raise ValueError(f"column {len(text) + 1}: ')' is missing")
    words = list(re.finditer(r"[^,\s][^,]*", call["ends"]))
    if len(words) != 2:
        raise ValueError(f"column {call.start('ends') + 1}: {kind} takes two numbers, LOW and HIGH")
    columns = [call.start("ends") + word.start() + 1 for word in words]
    low, high = (_number(word[0].strip(), kind, at) for word, at in zip(words, columns, strict=True))
    if kind == "log" and low <= 0:
        raise ValueError(
            f"column {columns[0]}: the logarithm of {low!r} is not defined; LOW has to be above 0"
        )
    if low >= high:
        raise ValueError(f"column {columns[1]}: HIGH is {high!r}, which is not above LOW, {low!r}")
    return Interval(call["key"].strip(), kind, low, high)


def _number(word: str, kind: str, column: int) -> float:
    try:
        number = int(word) if kind == "int" else float(word)
        if math.isfinite(number):
            return number
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"column {column}: {word!r} is no {'whole' if kind == 'int' else 'finite'} number")
