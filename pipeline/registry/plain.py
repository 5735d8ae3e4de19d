"""From validated Python values back to the TOML values that give them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from pipeline.api.duration import format_duration
from pipeline.api.period import Period
from pipeline.config.document import unusable_keys
from pipeline.registry.annotations import enum_text
from pipeline.registry.traits import SECRETS


class NoTomlForm(ValueError):
    """A value that no TOML file can hold."""


def plain(value: Any) -> Any:
    """A value as TOML has it: text, numbers, booleans, dates, lists and tables.

    Secrets come out masked.

    Raises:
        NoTomlForm: for any other object, for None within a list or table, and for what TOML could
            hold but a config could not: integers beyond 64 bits, names with a dot, no time at all.
    """
    for types, convert in _FORMS:
        if isinstance(value, types):
            form = convert(value)
            for _ in unusable_keys(form):
                raise NoTomlForm(f"{value!r} has no form in a config")
            return form
    raise NoTomlForm(f"{value!r} has no form in TOML")


def _table(value: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise NoTomlForm(f"{value!r} has keys that are no text")
    return {key: plain(item) for key, item in value.items()}


def _duration(value: timedelta) -> str:
    if value <= timedelta(0):
        raise NoTomlForm(f"{value!r} is no duration that a config can write")
    return format_duration(value)


def _model(value: BaseModel) -> dict[str, Any]:
    return {name: plain(item) for name, item in value if item is not None}


_FORMS: tuple[tuple[Any, Any], ...] = (  # an Enum may be an int or a str too, so it comes first
    (Enum, enum_text),
    ((bool, int, float, str, datetime, date, time), lambda value: value),
    (PurePath, str),
    (Period, str),
    (timedelta, _duration),
    (SECRETS, str),
    ((list, tuple), lambda value: [plain(item) for item in value]),
    ((set, frozenset), lambda value: sorted((plain(item) for item in value), key=repr)),
    (Mapping, _table),
    (BaseModel, _model),
)
