"""The difference of two configs, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

from pipeline.config.outline import NAMED

HOOKS_ORDER = "hooks"
"""The key of a change in the hooks' order."""


@dataclass(frozen=True)
class Change:
    """One key whose value is not the same; None: the key is not there."""

    key: str
    before: Any
    after: Any

    @property
    def is_from_environment(self) -> bool:
        """Whether a side is an interpolation, whose value is written nowhere and cannot be compared."""
        return any(_is_interpolation(value) for value in (self.before, self.after))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """What differs between two trees, in the order of the keys of ``before``, new keys last.

    A dataset, metric or hook that only one side has is one change; arrays are compared as a whole;
    the order of tables and keys does not count, except that of the hooks, which is one change.
    """
    left, right = _by_change(before, after), _by_change(after, before)
    keys = list(dict.fromkeys((*left, *right)))
    found = [Change(k, left.get(k), right.get(k)) for k in keys if not _equal(left.get(k), right.get(k))]
    orders = [list(_table(tree, "hooks")) for tree in (before, after)]
    common = [[name for name in order if name in orders[0] and name in orders[1]] for order in orders]
    if common[0] != common[1]:
        found.append(Change(HOOKS_ORDER, common[0], common[1]))
    return found


def environment_keys(tree: Mapping[str, Any]) -> list[str]:
    """The dotted keys of a canonical tree whose values come from the environment."""
    return [key for key, value in flatten(tree).items() if _is_interpolation(value)]


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The tree as dotted keys; an array is one value, and so is an empty table."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _by_change(tree: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The flat tree, with a named component that ``other`` has not as one value."""
    flat: dict[str, Any] = {}
    for section, value in tree.items():
        if section not in NAMED or not isinstance(value, Mapping):
            flat.update(flatten({section: value}))
            continue
        for name, table in value.items():
            if name in _table(other, section):
                flat.update(flatten({section: {name: table}}))
            else:
                flat[f"{section}.{name}"] = table
    return flat


def _table(tree: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    value = tree.get(section)
    return value if isinstance(value, Mapping) else {}


def _equal(left: Any, right: Any) -> bool:
    """Equality that tells true from 1, and that nan has with itself; within arrays and tables too."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    both_nan = isinstance(left, float) and isinstance(right, float) and isnan(left) and isnan(right)
    return both_nan or bool(left == right)


def _is_interpolation(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value.replace("\\${", "")
    if isinstance(value, Mapping):
        return any(_is_interpolation(child) for child in value.values())
    return isinstance(value, list | tuple) and any(_is_interpolation(child) for child in value)
