"""Texts that are never written in the clear: from the environment, or marked secret by a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.config.draft import Draft
from pipeline.config.keys import KeyPath, find, find_dotted, walk
from pipeline.config.parts import Part

SHORTEST = 4
"""Characters: a shorter text stands in too many words to be hidden."""
_SECRET = "***"


def hidden_texts(draft: Draft, parts: Mapping[KeyPath, Part], tree: Mapping[str, Any]) -> dict[str, str]:
    """Each text that must not be shown, and what is shown instead: its variable, or asterisks.

    Of the environment these are the texts that ``tree``, the canonical one, has as interpolations;
    what it has resolved (numbers, booleans, listed choices) is no secret.
    """
    hidden = {}
    for path, written in draft.interpolated.environment.items():
        if path[0] == "vars" or find(tree, path) != written:
            continue
        for text in _texts(find(draft.tree, path)):
            for taken, variable in draft.interpolated.variables.items():
                if taken in text:
                    hidden[taken] = f"${{oc.env:{variable}}}"
                elif text in taken:  # a part of it, decoded
                    hidden[text] = f"${{oc.env:{variable}}}"
    for name in (secret for part in parts.values() for secret in part.secrets):
        secret = find_dotted(draft.tree, name)
        if secret is not None:
            hidden |= {text: hidden.get(text, _SECRET) for text in _texts(find(draft.tree, secret))}
    return {text: shown for text, shown in hidden.items() if len(text) >= SHORTEST}


def mask(text: str, hidden: Mapping[str, str]) -> str:
    """The text without what must not be shown, be it as it is or as ``repr`` writes it."""
    for value in sorted(hidden, key=len, reverse=True):  # one may be a part of another
        for form in (value, repr(value)[1:-1]):
            text = text.replace(form, hidden[value])
    return text


def _texts(value: Any) -> Iterator[str]:
    yield from (text for text in (value, *(below for _, below in walk(value))) if isinstance(text, str))
