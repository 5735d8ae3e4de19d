"""Texts that are never written in the clear: from the environment, or marked secret by a schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pipeline.config.draft import Draft
from pipeline.config.keys import KeyPath, dotted, find, walk
from pipeline.config.layers import Layers
from pipeline.config.masking import SHORTEST, mask
from pipeline.config.parts import Part

_SECRET = "***"


def hidden_texts(
    draft: Draft, parts: Mapping[KeyPath, Part], tree: Mapping[str, Any], layers: Layers
) -> dict[str, str]:
    """Each text that must not be shown, and what is shown instead: its variable, or asterisks.

    Of the environment these are the texts that ``tree``, the canonical one, has as interpolations;
    what it has resolved (numbers, booleans, listed choices) is no secret. A secret is one in every
    layer, also where a later layer has another in its place.
    """
    hidden: dict[str, str] = {}
    for path, written in draft.interpolated.environment.items():
        found = find(tree, path)
        if path[0] == "vars" or not (isinstance(found, str) and found.endswith(written)):
            continue
        for text in _texts(find(draft.tree, path)):
            for taken, variable in draft.interpolated.variables.items():
                if taken in text:
                    hidden[taken] = f"${{oc.env:{variable}}}"
                elif text in taken:  # a part of it, decoded
                    hidden[text] = f"${{oc.env:{variable}}}"
    trees = [draft.tree, *(_without_references(tree) for tree in layers.trees())]
    for secret in (secret for part in parts.values() for secret in part.secrets):
        for held in (find(tree, secret) for tree in trees):
            hidden |= {text: hidden.get(text, _SECRET) for text in _texts(held)}
    return {text: shown for text, shown in hidden.items() if len(text) >= SHORTEST}


def _without_references(value: Any) -> Any:
    """A tree as it was written, less the texts that are interpolations."""
    if isinstance(value, Mapping):
        return {key: _without_references(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_without_references(child) for child in value]
    return None if isinstance(value, str) and "${" in value else value


def masked_words(words: Sequence[str], secrets: Collection[KeyPath], hidden: Mapping[str, str]) -> list[str]:
    """A command line without what must not be shown: hidden texts, and what ``--set`` gives a secret."""
    names = [f"{dotted(secret)}." for secret in secrets]
    masked = []
    for word in words:
        option, _, rest = word.partition("=") if word.startswith("--set=") else ("", "", word)
        key, equals, _ = rest.partition("=")
        name = f"{key.strip().rstrip('+')}."
        holds = equals and any(name.startswith(secret) or secret.startswith(name) for secret in names)
        masked.append(f"{option}{'=' * bool(option)}{key}={_SECRET}" if holds else mask(word, hidden))
    return masked


def _texts(value: Any) -> Iterator[str]:
    yield from (text for text in (value, *(below for _, below in walk(value))) if isinstance(text, str))
