"""The canonical tree of a config: what config.toml holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.config.draft import Draft
from pipeline.config.engine_keys import EngineKeys
from pipeline.config.environment import escaped
from pipeline.config.keys import KeyPath, copied, find, walk
from pipeline.config.outline import NAMED, SETTINGS, SINGLE, TOP_LEVEL
from pipeline.config.parts import Part, named
from pipeline.config.plan import CheckedTable


def canonical_tree(
    draft: Draft,
    parts: Mapping[KeyPath, Part],
    engine: EngineKeys,
    settings: Mapping[str, CheckedTable],
    top: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything resolved and with defaults, in one order; hooks alone keep the file's.

    Args:
        top: name, seed and components, as they are written; None is left out.
    """
    tree: dict[str, Any] = {}
    for section in TOP_LEVEL:
        if section in top:
            tree[section] = top[section]
        elif section in SINGLE and (section,) in parts:
            tree[section] = _table(parts[section,], engine)
        elif section in NAMED:
            members = {name: _table(part, engine) for name, part in _ordered(parts, section)}
            tree.update({section: members} if members else {})
        elif section in SETTINGS:
            tree[section] = dict(settings[section].plain)
    if len(tree["dataset"]) == 1 and ("train", "evaluate_every") not in draft.merged.origins:
        tree["train"].pop("evaluate_every")  # the default is for datasets that are not there
    kept = _needed_vars(draft, tree)
    if kept:
        tree["vars"] = kept
    order = {section: number for number, section in enumerate(TOP_LEVEL)}
    return {key: tree[key] for key in sorted(tree, key=order.__getitem__) if tree[key] is not None}


def _table(part: Part, engine: EngineKeys) -> dict[str, Any]:
    return {**part.plain, **engine.plain.get(part.path, {})}


def _ordered(parts: Mapping[KeyPath, Part], section: str) -> Iterator[tuple[str, Part]]:
    members = named(parts, section)
    if section == "hooks":
        yield from members
    else:
        yield from sorted(members, key=lambda member: (member[0] != "train", member[0]))


def _needed_vars(draft: Draft, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The values of [vars] that interpolations in the tree refer to, directly or not."""
    variables = draft.written.get("vars")
    environment = draft.interpolated.environment
    if not isinstance(variables, Mapping) or not environment:
        return {}
    texts = [value for _, value in walk(tree) if isinstance(value, str) and "${" in value]
    needed: dict[str, None] = {}
    while texts:
        text = texts.pop()
        for name in variables:
            if name not in needed and _refers(text, name):
                needed[name] = None
                below = [variables[name], *(value for _, value in walk(variables[name]))]
                texts += [value for value in below if isinstance(value, str) and "${" in value]
    return {name: _written(draft, name) for name in variables if name in needed}


def _refers(text: str, name: str) -> bool:
    """Whether a text may refer to ``vars.name``; a computed or relative reference may refer to any."""
    if re.search(r"vars[.\[]?\$\{|\$\{\s*(vars\s*\}|\.)|oc\.(select|dict)|\$\{\s*\$\{", text):
        return True
    return re.search(rf"vars(\.|\[|\]\.|\]\[)\s*{re.escape(name)}(?![\w-])", text) is not None


def _written(draft: Draft, name: str) -> Any:
    """A value of [vars] as it is written: resolved, except what comes from the environment."""
    holder = {name: escaped(copied(find(draft.tree, ("vars", name))))}
    for path, written in draft.interpolated.environment.items():
        if path[:2] == ("vars", name) and find(holder, path[1:]) is not None:
            find(holder, path[1:-1])[path[-1]] = written
    return holder[name]
