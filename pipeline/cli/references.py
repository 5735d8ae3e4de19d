"""Which values of a config are given by reference, as its files have them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.config.keys import dotted, walk


def references_in(tree: Mapping[str, Any]) -> dict[str, str]:
    """By key, each text that refers to other keys, as it is written."""
    return {dotted(path): value for path, value in walk(tree) if isinstance(value, str) and "${" in value}


def recorded_references(source: Path, overrides: Iterable[str]) -> dict[str, str]:
    """Those of a run: of the user's files that its folder keeps, less what was overridden.

    A key that two of the files have otherwise is left out: which one won is not told by them alone.
    """
    found: dict[str, str] = {}
    doubted: set[str] = set()
    set_anew = [_key_of(override.partition(" ")[2]) for override in overrides]
    for tree in _trees(source):
        values = {dotted(path): value for path, value in walk(tree)}
        doubted |= {key for key, text in found.items() if values.get(key, text) != text}
        found |= references_in(tree)
        set_anew += [_key_of(text) for text in tree.get("set", ()) if isinstance(text, str)]
    return {
        key: text
        for key, text in found.items()
        if key not in doubted and not any(key == one or key.startswith(f"{one}.") for one in set_anew)
    }


def _key_of(override: str) -> str:
    """Of ``KEY=VALUE``, ``KEY+=VALUE`` or ``KEY``."""
    return override.partition("=")[0].strip().removesuffix("+")


def _trees(source: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(source.glob("*.toml")):
        try:
            yield tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError):  # the run's own config is what counts: these only say where it is from
            continue
