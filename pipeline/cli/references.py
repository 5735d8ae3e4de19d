"""Which values of a config are given by reference, as its files have them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.config.keys import dotted, walk
from pipeline.config.overrides import parse_edits
from pipeline.config.plan import Place
from pipeline.config.report import Report


def references_in(tree: Mapping[str, Any]) -> dict[str, str]:
    """By key, each text that refers to other keys, as it is written."""
    return {dotted(path): value for path, value in walk(tree) if _is_reference(value)}


def recorded_references(source: Path, overrides: Iterable[str]) -> dict[str, str]:
    """Those of a run: of the user's files that its folder keeps, and of its overrides, which come last.

    A key that two of the files have otherwise is left out: which one won is not told by them alone.
    """
    files = [_said(tree, _texts(tree.get("set")), _texts(tree.get("unset"))) for tree in _trees(source)]
    options = [override.partition(" ") for override in overrides]
    last = _said(
        {},
        [text for option, _, text in options if option == "--set"],
        [text for option, _, text in options if option == "--unset"],
    )
    written = {key: text for file in files for key, text in file.items() if _is_reference(text)}
    agreed = {
        key: text
        for key, text in written.items()
        if not _is_about(last, key) and all(file.get(key) == text for file in files if _is_about(file, key))
    }
    return agreed | {key: text for key, text in last.items() if _is_reference(text)}


def _said(tree: Mapping[str, Any], sets: Sequence[str], unsets: Sequence[str]) -> dict[str, Any]:
    """By key, the values that a file, or the command line, gives; None where it takes the key out."""
    edits = parse_edits(
        [(text, Place("")) for text in sets], [(text, Place("")) for text in unsets], report=Report()
    )
    said: dict[str, Any] = {dotted(edit.key): None for edit in edits if edit.kind == "unset"}
    values = list(walk(tree))
    for edit in edits:
        if edit.kind == "append":  # a part of the array: all of it refers to nothing
            values.append((edit.key, [edit.value]))
        elif edit.kind != "unset":
            values += [(edit.key, edit.value), *walk(edit.value, edit.key)]
    return said | {dotted(path): value for path, value in values if not isinstance(value, Mapping)}


def _is_about(said: Mapping[str, Any], key: str) -> bool:
    """Whether it gives or takes out the key, or a table that the key is in."""
    return any(key == one or key.startswith(f"{one}.") for one in said)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _trees(source: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(source.glob("*.toml")):
        try:
            yield tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError):  # the run's own config is what counts: these only say where it is from
            continue
