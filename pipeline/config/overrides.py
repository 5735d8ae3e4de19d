"""``--set a.b.c=VALUE`` and ``--unset a.b`` as data, and the same in a file: ``set``, ``unset``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.config.document import MAX_DEPTH, depth, unusable_keys
from pipeline.config.keys import dotted
from pipeline.config.plan import Place
from pipeline.config.report import Report
from pipeline.config.wording import show

_TURNS = {"unset": 0, "set": 1, "append": 2}


@dataclass(frozen=True)
class Override:
    """One change of what is merged so far, from the command line or from a file."""

    kind: Literal["set", "append", "unset"]
    key: tuple[str, ...]
    value: Any
    """What --set gives; None for --unset."""
    text: str
    """As typed: ``optimizer.lr=0.01``, ``model.freeze+=head.*``."""
    place: Place
    """Where it is said."""

    @property
    def option(self) -> str:
        """The option that says it on the command line."""
        return "--unset" if self.kind == "unset" else "--set"


def parse_overrides(
    sets: Sequence[str] = (), unsets: Sequence[str] = (), *, report: Report
) -> tuple[Override, ...]:
    """Read those of the command line."""
    return parse_edits(
        [(text, Place("--set")) for text in sets],
        [(text, Place("--unset")) for text in unsets],
        report=report,
    )


def parse_edits(
    sets: Sequence[tuple[str, Place]] = (), unsets: Sequence[tuple[str, Place]] = (), *, report: Report
) -> tuple[Override, ...]:
    """Read overrides, each with its place, into the order in which they act, which is not the given one.

    --unset acts before --set, so that both on one table replace it; a table is set before what is
    set inside it. Of the same key set twice the last one counts. What is appended comes after that,
    in its own order. What cannot be read is reported and left out.
    """
    parsed: dict[tuple[str, tuple[str, ...], int], Override] = {}
    for number, override in enumerate((*_read_unsets(unsets, report), *_read_sets(sets, report))):
        parsed[override.kind, override.key, number if override.kind == "append" else 0] = override

    def turn(override: Override) -> tuple[int, int]:
        return _TURNS[override.kind], len(override.key)

    return tuple(sorted(parsed.values(), key=turn))


def _read_unsets(unsets: Iterable[tuple[str, Place]], report: Report) -> Iterable[Override]:
    for text, place in unsets:
        key = _read_key(place, text, report)
        if key:
            yield Override("unset", key, None, text, place)


def _read_sets(sets: Iterable[tuple[str, Place]], report: Report) -> Iterable[Override]:
    for text, place in sets:
        name, equals, value = text.partition("=")
        if not equals:
            message = f"{show(text)} has no '='"
            report.add(place, "", message, expected="KEY=VALUE, as optimizer.lr=0.01")
            continue
        appends = name.rstrip().endswith("+")
        key = _read_key(place, name.rstrip().removesuffix("+"), report)
        if key and _is_usable(key, value, place, report):
            yield Override("append" if appends else "set", key, read_value(value), text, place)


def _read_key(place: Place, text: str, report: Report) -> tuple[str, ...]:
    key = tuple(part.strip() for part in text.strip().split("."))
    if all(part and part.isprintable() for part in key) and len(key) <= MAX_DEPTH:
        return key
    report.add(place, "", f"{show(text)} is no key", expected="names joined by dots, as optimizer.lr")
    return ()


def _is_usable(key: tuple[str, ...], text: str, place: Place, report: Report) -> bool:
    try:
        value = read_value(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else "a number has too many digits"
        report.add(place, dotted(key), f"the value cannot be read: {reason}")
        return False
    if len(key) + depth(value) > MAX_DEPTH:
        report.add(place, dotted(key), f"the value cannot be read: nested deeper than {MAX_DEPTH} levels")
        return False
    unusable = list(unusable_keys(value))
    for path, message, expected in unusable:
        report.add(place, dotted((*key, *path)), message, expected=expected)
    return not unusable


def read_value(text: str) -> Any:
    """VALUE of ``--set``: read as TOML, or as the plain text where it is not TOML.

    Raises:
        ValueError: if it is TOML but no value can hold it (an integer of thousands of digits).
        RecursionError: if it is nested too deep to be read.
    """
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text  # a line break could begin another key
