"""Hashes of a canonical tree: two runs with equal ones were asked for the same thing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

from pipeline.config.compare import flatten
from pipeline.config.resume import TAKES_EFFECT, effect_of

_NEVER = frozenset({"name", "components", "model.weights", "model.weights.path"})
"""The name, and the paths among the engine's own keys."""


def fingerprint_of(tree: Mapping[str, Any], *, left_out: Collection[str] = ()) -> str:
    """SHA-256, in hex, of a canonical tree.

    Args:
        left_out: dotted keys of file paths and secrets, which only schemas can tell.
    """
    without = _NEVER | set(left_out)
    leaves = {key: value for key, value in flatten(tree).items() if key not in without}
    return _hash(leaves, list(tree.get("hooks", {})))


def identity_of(tree: Mapping[str, Any], *, left_out: Collection[str] = ()) -> str:
    """The same without all that takes effect on resume; the caller leaves out a drawn seed."""
    without = _NEVER | set(left_out)
    leaves = {
        key: value
        for key, value in flatten(tree).items()
        if key not in without and effect_of(key)[0] != TAKES_EFFECT
    }
    return _hash(leaves, [])


def _hash(leaves: Mapping[str, Any], hooks: list[str]) -> str:
    text = json.dumps([leaves, hooks], sort_keys=True, ensure_ascii=True, default=str)
    return sha256(text.encode()).hexdigest()
