"""Hashes of a canonical tree: two runs with equal ones were asked for the same thing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

from pipeline.config.compare import flatten
from pipeline.config.keys import KeyPath
from pipeline.config.resume import TAKES_EFFECT, effect_of

_NEVER: tuple[KeyPath, ...] = (("name",), ("components",), ("model", "weights", "path"))
"""The name, and the paths among the engine's own keys."""


def fingerprint_of(tree: Mapping[str, Any], *, left_out: Collection[KeyPath] = ()) -> str:
    """SHA-256, in hex, of a canonical tree.

    Args:
        left_out: the file paths and secrets, which only schemas can tell.
    """
    return _hash(leaves(tree, left_out), list(tree.get("hooks", {})))


def identity_of(tree: Mapping[str, Any], *, left_out: Collection[KeyPath] = ()) -> str:
    """The same without all that takes effect on resume; the caller leaves out a drawn seed."""
    counted = leaves(tree, left_out)
    return _hash({key: value for key, value in counted.items() if effect_of(key)[0] != TAKES_EFFECT}, [])


def leaves(tree: Mapping[str, Any], left_out: Collection[KeyPath]) -> dict[str, Any]:
    """The flat tree without what does not count; in an array its place stays, as null."""
    without = {*_NEVER, *left_out}
    if isinstance(tree.get("model", {}).get("weights"), str):
        without.add(("model", "weights"))
    return flatten(_pruned(tree, (), without))


def _pruned(value: Any, path: KeyPath, without: Collection[KeyPath]) -> Any:
    if isinstance(value, Mapping):
        kept = ((key, child) for key, child in value.items() if (*path, key) not in without)
        return {key: _pruned(child, (*path, key), without) for key, child in kept}
    if isinstance(value, list | tuple):
        items = (((*path, number), item) for number, item in enumerate(value))
        return [None if place in without else _pruned(item, place, without) for place, item in items]
    return value


def _hash(counted: Mapping[str, Any], hooks: list[str]) -> str:
    text = json.dumps([counted, hooks], sort_keys=True, ensure_ascii=True, default=str)
    return sha256(text.encode()).hexdigest()
