"""From pydantic's errors to faults of a table: what was got, what was expected, the nearest choice."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pipeline.config.plan import Fault
from pipeline.registry.signature import Parameter

_TYPES = {  # in TOML's words, which are not Python's
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "dict_type": "a table",
    "path_type": "a path",
}


def shown(value: Any) -> str:
    """A value as the config has it, cut to a line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def validation_faults(
    error: ValidationError, table: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> list[Fault]:
    """One fault for each value at fault, the branches of a union joined."""
    expected: dict[tuple[str | int, ...], list[str]] = {}
    for item in error.errors(include_url=False, include_context=False):
        path = _existing(item["loc"], table)
        wanted = _wanted(item["type"], item["msg"], item["loc"][len(path) :])
        wishes = expected.setdefault(path, [])
        if wanted not in wishes:
            wishes.append(wanted)
    return [
        _fault(path, wishes, table, parameters)
        for path, wishes in expected.items()
        if not any(other[: len(path)] == path and other != path for other in expected)
    ]


def _existing(loc: Sequence[str | int], table: Mapping[str, Any]) -> tuple[str | int, ...]:
    """The part of an error's location that leads to a value: pydantic mixes in names of union branches."""
    path: list[str | int] = []
    value: Any = table
    for step in loc:
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_list or (isinstance(value, Mapping) and step in value):
            path.append(step)
            value = value[step]
    return tuple(path)


def _wanted(code: str, message: str, rest: Sequence[str | int]) -> str:
    if code == "missing":
        return f"an item {rest[-1]}" if rest and isinstance(rest[-1], int) else f"a key {rest[-1]!r}"
    if code in _TYPES:
        return _TYPES[code]
    message = re.sub(r"^(Value error, |Assertion failed, )", "", message)
    return re.sub(r"^Input should be (a valid |)", lambda m: "a " if m[1] else "", message)


def _fault(
    path: tuple[str | int, ...],
    wishes: list[str],
    table: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
) -> Fault:
    value: Any = table
    for step in path:
        value = value[step]
    parameter = parameters.get(str(path[0])) if path else None
    wanted = " or ".join(wishes)
    if parameter is None:
        return Fault(path, wanted)
    got = "a secret" if parameter.may_hold_secret else shown(value)
    choices = re.findall(r"'([^']*)'", wanted)
    nearest = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else []
    if wanted.startswith("expected "):
        wanted = wanted.removeprefix("expected ")
    elif "; expected " in wanted:  # a validator's own words, which show the value themselves
        message, _, wanted = wanted.partition("; expected ")
        return Fault(path, "a secret that does not fit" if parameter.may_hold_secret else message, wanted)
    return Fault(path, f"got {got}", f"{wanted} ({parameter.text})", "".join(nearest))
