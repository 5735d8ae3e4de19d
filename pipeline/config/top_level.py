"""The keys of a config that stand in no table: name, seed and components."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config.draft import Draft
from pipeline.config.environment import escaped, read_as_toml
from pipeline.config.layers import Layers
from pipeline.config.plan import Place
from pipeline.config.wording import kind_of, show

_LONGEST_NAME = 100
_NAME = "a string without '/', at most 100 characters, not beginning with '.'"
_SEED = "an integer in 0..2**63-1"


@dataclass(frozen=True)
class Top:
    """name, seed and components, checked."""

    name: str
    seed: int | None
    components: tuple[Path, ...]
    written: Mapping[str, Any]
    """As they are written into config.toml; absent ones are left out."""


def check_top(draft: Draft, layers: Layers, name: str | None) -> Top:
    """Check them; ``name`` is the command line's, which counts more than the config's."""
    name_in_force, written_name = _name(draft, layers.path, name)
    seed = _seed(draft)
    components = [str(path) for path in layers.components]
    written: dict[str, Any] = {"name": written_name}
    if seed is not None:
        written["seed"] = seed
    if components:
        written["components"] = components
    return Top(name_in_force, seed, layers.components, written)


def _name(draft: Draft, path: Path, given: str | None) -> tuple[str, str]:
    """The name, and how it is written; text from the environment is none."""
    if given is not None:
        if not _is_name(given):
            draft.report.add(Place("--name"), "", f"got {show(given)}", expected=_NAME)
        return given, escaped(given)
    value = draft.tree.get("name")
    if value is None:
        stem = re.sub(r"[^\w.+-]", "-", path.stem).lstrip(".")[:_LONGEST_NAME] or "run"
        return stem, escaped(stem)
    if not _is_name(value):
        hint = '; quote it, as name = "..."' if not isinstance(value, str) else ""
        draft.complain(("name",), f"got {show(value)}", expected=f"{_NAME}{hint}")
        return "", ""
    if ("name",) in draft.interpolated.environment:
        message = "comes from the environment, whose text is never written; the run's folder has the name"
        draft.complain(("name",), message, expected="plain text, or --name on the command line")
    return value, escaped(value)


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_NAME
        and value.isprintable()
        and not re.search(r"[/\\]|^\.|^\s|\s$", value)
    )


def _seed(draft: Draft) -> int | None:
    value = draft.tree.get("seed")
    if ("seed",) in draft.interpolated.whole and isinstance(value, str):
        value = read_as_toml(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        draft.complain(("seed",), f"got {show(value)}, {kind_of(value)}", expected=_SEED)
        return None
    return value
