"""How values and names are worded in the problems of a config."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from itertools import islice
from typing import Any

_LONGEST = 80
_COMPARED = 500
"""How many names of a config are compared with one that is unknown: that is slow, and it may be large."""


def show(value: Any) -> str:
    """A value as TOML would write it, cut where it is long."""
    text = _toml(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def show_path(path: str) -> str:
    """A file's name as TOML would write it, whole: what tells one from another is at its end."""
    return json.dumps(path, ensure_ascii=False)


def kind_of(value: Any) -> str:
    """What TOML calls such a value: ``a table``, ``an integer``."""
    for types, words in _WORDS:
        if isinstance(value, types):
            return words
    return type(value).__name__


_WORDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a float"),
    (str, "a string"),
    (Mapping, "a table"),
    ((list, tuple), "an array"),
    ((datetime, date, time), "a date or time"),
)


def nearest(name: object, names: Iterable[str], *, cutoff: float = 0.6, most: int | None = _COMPARED) -> str:
    """The closest of ``names`` to a mistyped one, whatever their case; empty where none is close.

    Args:
        most: how many of the names to look at; None: all of them.
    """
    known = {one.lower(): one for one in islice(names, most)}
    matches = get_close_matches(str(name)[:_LONGEST].lower(), known, n=1, cutoff=cutoff)
    return known[matches[0]] if matches else ""


def listed(names: Iterable[str]) -> str:
    """Names as a sentence: ``a, b or c``."""
    *head, last = list(names) or [""]
    return f"{', '.join(head)} or {last}" if head else last


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = repr(value[:_LONGEST])[1:-1].replace('"', '\\"').replace("\\'", "'")
        return f'"{shown}"'
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {_toml(child)}" for key, child in list(value.items())[:_LONGEST])
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(child) for child in list(value)[:_LONGEST])}]"
    return str(value)
