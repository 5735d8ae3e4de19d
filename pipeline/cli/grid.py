"""``--grid KEY=V1,V2``: the axes of a sweep and their combinations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from pipeline.errors import ConfigError, Problem

MAX_RUNS = 10_000
"""Combinations of one sweep; more is taken for a slip of the hand."""

_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_OPENING = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Axis:
    """One key and the values that it takes."""

    key: str
    values: tuple[str, ...]
    """Each as ``--set`` takes it."""

    @property
    def overrides(self) -> list[str]:
        return [f"{self.key}={value}" for value in self.values]


def read_grid(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """All combinations, each as overrides; the last axis changes fastest.

    Raises:
        ConfigError: with all faults at once.
    """
    problems: list[Problem] = []
    axes: dict[str, Axis] = {}
    for text in texts:
        try:
            axis = read_axis(text)
        except ValueError as fault:
            problems.append(Problem("--grid", "", f"{text!r}: {fault}", "KEY=V1,V2 or KEY=FIRST..LAST"))
            continue
        if axis.key in axes:
            problems.append(Problem("--grid", axis.key, "is given twice", "one --grid with all its values"))
        axes[axis.key] = axis
    count = prod(len(axis.values) for axis in axes.values())
    if count > MAX_RUNS:
        problems.append(Problem("--grid", "", f"these are {count} runs", f"at most {MAX_RUNS}"))
    if problems:
        raise ConfigError(problems)
    return list(product(*(axis.overrides for axis in axes.values())))


def read_axis(text: str) -> Axis:
    """Raises ValueError, saying what is wrong."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise ValueError("has no key or no '='")
    found = [value for part in _split(values) for value in _expanded(part)]
    if len(set(found)) < len(found):
        raise ValueError("names a value twice")
    return Axis(key.strip(), tuple(found))


def _expanded(part: str) -> Iterator[str]:
    """``0..4`` is 0, 1, 2, 3, 4; all else is one value."""
    match = _RANGE.fullmatch(part)
    if match is None:
        yield part
        return
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ValueError(f"the range {part} is empty")
    if last - first >= MAX_RUNS:
        raise ValueError(f"the range {part} has more than {MAX_RUNS} values")
    yield from map(str, range(first, last + 1))


def _split(text: str) -> Iterator[str]:
    """The values between commas; those inside brackets and quotes belong to a value."""
    start, closing, quote = 0, [], ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPENING:
            closing.append(_OPENING[letter])
        elif closing and letter == closing[-1]:
            closing.pop()
        elif letter == "," and not closing:
            yield _value(text[start:at])
            start = at + 1
    if quote or closing:
        raise ValueError(f"{quote or closing[-1]!r} is missing")
    yield _value(text[start:])


def _value(text: str) -> str:
    if not text.strip():
        raise ValueError("has an empty value")
    return text.strip()
