"""Pydantic's errors in the words of a config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.api import duration, period
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
    "tuple_type": "an array",
    "list_type": "an array",
    "dict_type": "a table",
    "is_instance_of": "another type",
    "timedelta_type": duration.EXPECTED,
    "time_delta_type": duration.EXPECTED,
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "a number of at least {}"),
    "greater_than": ("gt", "a number greater than {}"),
    "less_than_equal": ("le", "a number of at most {}"),
    "less_than": ("lt", "a number less than {}"),
}


def as_faults(error: ValidationError, *, names: Sequence[str]) -> tuple[Fault, ...]:
    """One fault for each key at fault; the branches of a union are joined.

    Args:
        names: the keys that the table has.
    """
    by_key: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        by_key.setdefault(_path(details), []).append(details)
    return tuple(_fault(path, branches, names) for path, branches in by_key.items())


def _path(details: ErrorDetails) -> tuple[str | int, ...]:
    """The key, and the position in an array; what pydantic adds to name a union's branch is cut off."""
    key, *rest = details["loc"]
    return (key, rest[0]) if rest and isinstance(rest[0], int) else (key,)


def _fault(path: tuple[str | int, ...], branches: list[ErrorDetails], names: Sequence[str]) -> Fault:
    first = branches[0]
    if first["type"] == "extra_forbidden":
        near = nearest(path[0], names)
        return Fault(path, "unknown key", "" if near else listed(names), near, is_unknown_key=True)
    if first["type"] == "missing":
        return Fault(path, "is missing", "a value; there is no default")
    expected = listed(dict.fromkeys(filter(None, (_expected(details) for details in branches))))
    choices = [name for details in branches for name in _choices(details)]
    value = first["input"]
    near = nearest(value, choices) if isinstance(value, str) else ""
    return Fault(path, f"got {show(value)}{_of_kind(value)}", expected, near)


def _expected(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return words.format(context[name])
    if kind == "literal_error":
        return listed(f'"{name}"' for name in _choices(details))
    message = str(context.get("error", details["msg"]))
    for expected in (period.EXPECTED, duration.EXPECTED):
        if expected in message:
            return expected
    return message


def _choices(details: ErrorDetails) -> list[str]:
    """What a literal allows; pydantic gives it as text: ``'fp32', 'bf16' or 'fp16'``."""
    if details["type"] != "literal_error":
        return []
    return str(details.get("ctx", {}).get("expected", "")).replace(" or ", ", ").replace("'", "").split(", ")


def _of_kind(value: Any) -> str:
    """The kind beside a value whose look does not tell it: a text of digits is no number."""
    return f" ({kind_of(value)})" if isinstance(value, str) and value[:1].isdigit() else ""
