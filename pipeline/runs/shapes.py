"""Configs that have the same keys, kept as what each has otherwise than the first of them.

Thousands of runs have few sets of keys, and most of their values in common: what is not kept for each of
them need not be written, read, compared or let go for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PLAIN = frozenset({bool, int, float, str})
_PLAIN_OR_LIST = PLAIN | {list}


class Shapes:
    """The first config, by full dotted key, of every set of keys in its order."""

    def __init__(self, known: Iterable[Mapping[str, Any]] = ()) -> None:
        self._by_keys = {tuple(one): one for one in known}

    def split(self, config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The shape of a config, which is its own if no other has its keys, and the values that differ.

        None for one that JSON cannot hold.
        """
        keys = tuple(config)
        shape = self._by_keys.get(keys)
        own = config if shape is None else _differences(config, shape)
        if not _is_json(own):
            return None
        if shape is None:
            self._by_keys[keys] = config
            return config, {}
        return shape, own


def _is_json(config: Mapping[str, Any]) -> bool:
    """Whether JSON can hold it; a date, or a table in an array, it cannot."""
    if not set(map(type, config.values())) <= _PLAIN_OR_LIST:
        return False
    return all(set(map(type, value)) <= PLAIN for value in config.values() if type(value) is list)


def _differences(config: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for (key, value), first in zip(config.items(), shape.values(), strict=True)
        if value is not first and (value != first or _is_other(value, first))
    }


def _is_other(one: Any, equal: Any) -> bool:
    """Tells 1, 1.0 and true apart, inside an array too, and 0.0 from -0.0."""
    if type(one) is not type(equal):
        return True
    return (type(one) is list or not one) and repr(one) != repr(equal)
