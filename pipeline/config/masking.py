"""Taking texts that are not to be shown out of others."""

from __future__ import annotations

import json
from collections.abc import Mapping

SHORTEST = 4
"""Characters: a shorter text stands in too many words to be hidden."""


def mask(text: str, hidden: Mapping[str, str]) -> str:
    """The text without what must not be shown, as it is, or as ``repr``, JSON or TOML writes it.

    TOML in a text of TOML, too, which ``set`` of a config has.
    """
    for value in sorted(hidden, key=len, reverse=True):  # one may be a part of another
        written = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)}
        written |= {json.dumps(form, ensure_ascii=False)[1:-1] for form in (value, *written)}
        for form in sorted({value, repr(value)[1:-1], *written}, key=len, reverse=True):
            text = text.replace(form, hidden[value])
    return text


def mask_file(content: bytes, hidden: Mapping[str, str]) -> bytes:
    """The same for a file's content, whatever its encoding is."""
    return mask(content.decode(errors="surrogateescape"), hidden).encode(errors="surrogateescape")


def masked_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text with the names of environment variables in place of their texts.

    Args:
        variables: each text, and the variable that holds it.
    """
    hidden = {value: f"${{oc.env:{name}}}" for value, name in variables.items() if len(value) >= SHORTEST}
    return mask(text, hidden)
