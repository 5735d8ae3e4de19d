"""The functions of an interpolation: OmegaConf's, less those that could import or run code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pipeline.config.expression import ExpressionError, evaluate, parse_element
from pipeline.config.references import UnknownReferenceError
from pipeline.config.wording import kind_of, show

Lookup: TypeAlias = Callable[[str], Any]
"""Gives the value of a reference as written."""
Apply: TypeAlias = Callable[[str, tuple[Any, ...]], Any]
"""Applies a function, by name, to arguments."""


class EnvironmentText(str):
    """The text of an environment variable, not yet part of a longer one."""

    __slots__ = ()


def _env(arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    name, *default = arguments
    value = os.environ.get(str(name)) if "\0" not in str(name) else None
    if value is not None:
        return EnvironmentText(value)
    if not default:
        remedy = f"the variable, or a default as in ${{oc.env:{name},default}}"
        raise ExpressionError(f"the environment variable {str(name)!r} is not set", remedy)
    return default[0] if default[0] is None else EnvironmentText(default[0])


def _decode(arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    (text,) = arguments
    if text is None:
        return None
    if not isinstance(text, str):
        raise ExpressionError(f"oc.decode cannot read {kind_of(text)}", "a string")
    try:
        tree = parse_element(text)
    except ExpressionError:  # whose message has pieces of the text, which may be from the environment
        raise ExpressionError("oc.decode cannot read its text as a value", "as 1, [1, 2] or {a: 1}") from None
    return evaluate(tree, lookup, apply)


def _select(arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    key, *default = arguments
    try:
        return lookup(str(key))
    except UnknownReferenceError:
        return default[0] if default else None


def _keys(arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    return list(_table(arguments[0], lookup))


def _values(arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    return list(_table(arguments[0], lookup).values())


def _create(arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    return arguments[0]


def _table(value: Any, lookup: Lookup) -> Mapping[str, Any]:
    table = lookup(value) if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise ExpressionError(f"{show(value)} is {kind_of(table)}", "a table")
    return table


FUNCTIONS: Mapping[str, tuple[Callable[[tuple[Any, ...], Lookup, Apply], Any], int, int]] = {
    "oc.env": (_env, 1, 2),
    "oc.decode": (_decode, 1, 1),
    "oc.select": (_select, 1, 2),
    "oc.create": (_create, 1, 1),
    "oc.dict.keys": (_keys, 1, 1),
    "oc.dict.values": (_values, 1, 1),
}
"""Each function with the least and the most arguments it takes."""


def call(name: str, arguments: tuple[Any, ...], lookup: Lookup, apply: Apply) -> Any:
    """Apply a function of ``FUNCTIONS``.

    Raises:
        ExpressionError: if the arguments do not fit, or the environment variable is not set.
    """
    function, least, most = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        numbers = str(least) if least == most else f"{least} or {most}"
        raise ExpressionError(f"{name} takes {numbers} arguments, got {len(arguments)}")
    return function(arguments, lookup, apply)
