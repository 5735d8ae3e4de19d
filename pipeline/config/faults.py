"""Pydantic's errors in the words of a config: what was got, what was expected, the nearest choice."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.config.keys import KeyPath, find
from pipeline.config.plan import Fault
from pipeline.config.wording import kind_of, listed, nearest, show

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_TYPES = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "path_type": "a path",
    "is_instance_of": "another type",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "a number of at least {}"),
    "greater_than": ("gt", "a number greater than {}"),
    "less_than_equal": ("le", "a number of at most {}"),
    "less_than": ("lt", "a number less than {}"),
    "too_short": ("min_length", "at least {} items"),
    "too_long": ("max_length", "at most {} items"),
    "string_too_short": ("min_length", "at least {} characters"),
    "string_too_long": ("max_length", "at most {} characters"),
}
_CHOICES = {"literal_error": "expected", "union_tag_invalid": "expected_tags"}
"""Where each of these errors lists the choices."""
_CHOICE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,]+""")


@dataclass(frozen=True)
class Words:
    """What one error says of the value at a key."""

    expected: str = ""
    message: str = ""
    """A validator's own words, where they do not say what is expected."""
    choices: tuple[str, ...] = ()


def as_faults(
    error: ValidationError,
    table: Mapping[str, Any],
    *,
    keys_at: Callable[[KeyPath], Sequence[str]] = lambda path: (),
    notes: Mapping[str, str] | None = None,
    secrets: Collection[str] = (),
) -> list[Fault]:
    """One fault for each key at fault; the branches of a union are joined.

    Args:
        table: what was validated.
        keys_at: the keys of the table at a path, where they are known.
        notes: for each argument its type as its author wrote it, to stand behind what is expected.
        secrets: arguments whose values are not repeated.
    """
    faults: dict[KeyPath, Fault] = {}
    said: dict[KeyPath, list[Words]] = {}
    for details in error.errors(include_url=False):
        path, rest = _existing(details["loc"], table)
        missing = rest[0] if details["type"] == "missing" and len(rest) == 1 else 0
        if details["type"] == "extra_forbidden":
            names = keys_at(path[:-1])
            near = nearest(path[-1], names)
            expected = "" if near or not names else listed(names)
            faults[path] = Fault(path, "unknown key", expected, near, is_unknown_key=len(path) == 1)
        elif isinstance(missing, str):
            faults[*path, missing] = Fault((*path, missing), "is missing", "a value; there is no default")
        elif (words := _words(details, rest)) not in said.setdefault(path, []):
            said[path].append(words)
    holders = {path[:length] for path in (*said, *faults) for length in range(len(path))}
    for path, branches in said.items():
        if path not in holders:
            note = (notes or {}).get(str(path[0])) if path else None
            is_secret = bool(path) and path[0] in secrets
            faults[path] = _fault(path, find(table, path), branches, note, is_secret=is_secret)
    return list(faults.values())


def _existing(location: Sequence[str | int], table: Mapping[str, Any]) -> tuple[KeyPath, KeyPath]:
    """The part of an error's location that leads to a value, and what stands behind it.

    Pydantic mixes in the names of a union's branches, which are left out of the first.
    """
    path: list[str | int] = []
    rest: list[str | int] = []
    value: Any = table
    for step in location:
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_list or (isinstance(value, Mapping) and step in value):
            path.append(step)
            value = value[step]
            rest = []
        else:
            rest.append(step)
    return tuple(path), tuple(rest)


def _words(details: ErrorDetails, rest: KeyPath) -> Words:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "missing":  # in one branch of a union, or of an array
        return Words(f"an item {rest[-1]}" if isinstance(rest[-1], int) else f"a key {rest[-1]!r}")
    if kind in _TYPES:
        return Words(_TYPES[kind])
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return Words(words.format(context[name]))
    if kind in _CHOICES:
        return _one_of(str(context.get(_CHOICES[kind], "")))
    message = re.sub(r"^(Value error, |Assertion failed, )", "", details["msg"])
    if kind in ("value_error", "assertion_error"):
        return _authors(message)
    return Words(re.sub(r"^Input should be (a valid |)", lambda found: "a " if found[1] else "", message))


def _one_of(text: str) -> Words:
    """Choices that pydantic gives as a text: ``'fp32', 'bf16' or 'fp16'``."""
    choices = [ast.literal_eval(choice) for choice in _CHOICE.findall(text) if choice != "or"]
    texts = tuple(choice for choice in choices if isinstance(choice, str))
    return Words(listed(show(choice) for choice in choices), choices=texts)


def _authors(message: str) -> Words:
    """A validator's message: what it says is expected, or else all of it."""
    head, says, tail = message.rpartition("expected ")
    if says and (not head or head.endswith("; ")):
        return Words(tail, choices=tuple(re.findall(r'"([^"]*)"', tail)) if tail.startswith("one of") else ())
    return Words(message=message)


def _fault(
    path: KeyPath, value: Any, branches: Sequence[Words], note: str | None, *, is_secret: bool
) -> Fault:
    expected = listed(dict.fromkeys(words.expected for words in branches if words.expected))
    reasons = [words.message for words in branches if words.message]
    choices = [choice for words in branches for choice in words.choices]
    if expected and note:
        expected += f" ({note})"
    if is_secret:
        return Fault(path, "the value, which may hold a secret, does not fit", expected)
    message = f"got {show(value)}{_of_kind(value)}" if path else "does not fit"
    if reasons:
        message += f": {' or '.join(reasons)}"
    return Fault(path, message, expected, nearest(value, choices) if isinstance(value, str) else "")


def _of_kind(value: Any) -> str:
    """The kind beside a value whose look does not tell it: a text of digits is no number."""
    return f" ({kind_of(value)})" if isinstance(value, str) and value[:1].isdigit() else ""
