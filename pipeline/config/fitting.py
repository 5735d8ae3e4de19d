"""Whether a value fits an annotation, where that is plain to see: pydantic takes long to import.

What is answered here is what pydantic would answer with the config's rules (strict, but an int fits
a float, an array a tuple, and a text a path, a period and a duration). All else is left to pydantic.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from pipeline.api.duration import format_duration, parse_duration
from pipeline.api.metric_name import NamesMetric
from pipeline.api.period import Period

Fit: TypeAlias = Callable[[Any], Any]
"""Makes of a TOML value the argument that it stands for; raises UnsureError."""


class UnsureError(Exception):
    """It is not plain to see: ask pydantic, or import what it is about."""


class MisfitError(UnsureError):
    """The value does not fit; pydantic has the words for it."""


class Unwritable:
    """Stands in annotations for a type that no TOML value fits."""


def fit_of(annotation: Any) -> Fit | None:
    """How values become arguments of an annotation; None: no TOML value fits it.

    Raises:
        UnsureError: if it is none of those that are known here.
    """
    origin = get_origin(annotation)
    if origin in _GENERIC:
        return _GENERIC[origin](get_args(annotation))
    if annotation in _NEVER_WRITTEN:
        return None
    if annotation not in _FITS:
        raise UnsureError(f"{annotation} is not known here")
    return _FITS[annotation]


def fitted(annotation: Any, value: Any) -> Any:
    """The argument that a TOML value stands for.

    Raises:
        UnsureError: if it does not plainly fit.
    """
    fit = fit_of(annotation)
    if fit is None:
        raise MisfitError(f"nothing fits {annotation}")
    return fit(value)


def toml_of(value: Any) -> Any:
    """An argument as TOML has it.

    Raises:
        UnsureError: if it is of a type that is not known here, None too.
    """
    if type(value) in _OWN_FORM:
        return value
    if isinstance(value, list | tuple):
        return [toml_of(item) for item in value]
    if type(value) is dict:
        return {key: toml_of(item) for key, item in value.items()}
    if type(value) is Period:
        return str(value)
    if type(value) is timedelta:
        return format_duration(value)
    raise UnsureError(f"{value!r} is not known here")


_OWN_FORM = (bool, int, float, str)
_NEVER_WRITTEN = (Unwritable, type, collections.abc.Callable)


def _any(value: Any) -> Any:
    toml_of(value)
    return value


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise MisfitError(f"{value!r} is no {kind.__name__}")
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise MisfitError(f"{value!r} is no number")
    return float(value)


def _text_of(read: Callable[[str], Any], value: Any) -> Any:
    try:
        return read(_exactly(str, value))
    except ValueError as error:
        raise MisfitError(str(error)) from error


_FITS: Mapping[Any, Fit] = MappingProxyType(
    {
        Any: _any,
        bool: partial(_exactly, bool),
        int: partial(_exactly, int),
        float: _float,
        str: partial(_exactly, str),
        Period: partial(_text_of, Period.parse),
        timedelta: partial(_text_of, parse_duration),
        Path: partial(_text_of, Path),
    }
)


def _chosen(choices: tuple[Any, ...], value: Any) -> Any:
    if value not in choices:
        raise MisfitError(f"{value!r} is none of {choices}")
    # To pydantic 1.0 is 1, but True is not.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise UnsureError(f"{value!r} is another type than in {choices}")
    return value


def _array(item: Fit, value: Any) -> list[Any]:
    return [item(one) for one in _exactly(list, value)]


def _array_of(arguments: tuple[Any, ...]) -> Fit | None:
    item = fit_of(*arguments)
    return item and partial(_array, item)


def _table_of(arguments: tuple[Any, ...]) -> Fit | None:
    keys, values = arguments
    if keys is not str:
        raise UnsureError(f"keys of type {keys} are not known here")
    item = fit_of(values)
    return item and (lambda value: {key: item(one) for key, one in _exactly(dict, value).items()})


def _tuple_of(arguments: tuple[Any, ...]) -> Fit | None:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = fit_of(arguments[0])
        return item and (lambda value: tuple(_array(item, value)))
    fits = [fit_of(argument) for argument in arguments]
    items = [fit for fit in fits if fit]
    return partial(_items, items) if len(items) == len(fits) else None


def _items(items: list[Fit], value: Any) -> tuple[Any, ...]:
    if len(_exactly(list, value)) != len(items):
        raise MisfitError(f"expected {len(items)} items")
    return tuple(item(one) for item, one in zip(items, value, strict=True))


def _union_of(members: tuple[Any, ...]) -> Fit | None:
    """What no TOML value fits is ignored."""
    fits = [fit_of(member) for member in members if member is not NoneType]
    writable = [fit for fit in fits if fit]
    return partial(_the_one, writable) if writable else None


def _the_one(fits: list[Fit], value: Any) -> Any:
    """What the value is to the one member that it fits: of several pydantic chooses."""
    found = []
    for fit in fits:
        try:
            found.append(fit(value))
        except MisfitError:
            continue
    if not found:
        raise MisfitError(f"{value!r} fits none of the types")
    if len(found) > 1:
        raise UnsureError(f"{value!r} fits several types")
    return found[0]


_CHECKS: Mapping[type, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        Ge: lambda bound, value: value >= bound.ge,
        Gt: lambda bound, value: value > bound.gt,
        Le: lambda bound, value: value <= bound.le,
        Lt: lambda bound, value: value < bound.lt,
        MinLen: lambda bound, value: len(value) >= bound.min_length,
        MaxLen: lambda bound, value: len(value) <= bound.max_length,
        NamesMetric: lambda bound, value: True,
    }
)


def _bounded_of(arguments: tuple[Any, ...]) -> Fit | None:
    annotation, *marks = arguments
    if any(type(mark) not in _CHECKS for mark in marks):
        raise UnsureError(f"{marks} are not all known here")
    inner = fit_of(annotation)
    return inner and partial(_bounded, inner, [partial(_CHECKS[type(mark)], mark) for mark in marks])


def _bounded(inner: Fit, bounds: Iterable[Callable[[Any], bool]], value: Any) -> Any:
    fitting = inner(value)
    if not all(holds(fitting) for holds in bounds):
        raise MisfitError(f"{value!r} is out of bounds")
    return fitting


_GENERIC: Mapping[Any, Callable[[tuple[Any, ...]], Fit | None]] = MappingProxyType(
    {
        Annotated: _bounded_of,
        Union: _union_of,
        UnionType: _union_of,
        Literal: lambda choices: partial(_chosen, choices),
        tuple: _tuple_of,
        dict: _table_of,
        **dict.fromkeys(
            (
                list,
                collections.abc.Sequence,
                collections.abc.Iterable,
                collections.abc.Collection,
            ),
            _array_of,
        ),
        collections.abc.Callable: lambda signature: None,
    }
)
