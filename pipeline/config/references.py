"""References between keys: ``${vars.x}``, ``${.lr}``, ``${..lr}``, ``${a[0].b}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeline.config.expression import ExpressionError
from pipeline.config.keys import KeyPath, dotted, walk
from pipeline.config.wording import nearest

_PART = re.compile(r"[^.\[\]]+")


class UnknownReferenceError(ExpressionError):
    """Nothing stands where a reference points."""


def absolute(written: str, home: KeyPath) -> tuple[str, ...]:
    """The path that a reference in the value at ``home`` means: a dot in front is home's own table.

    Raises:
        UnknownReferenceError: if it climbs past the top.
    """
    parts = tuple(_PART.findall(written))
    dots = len(written) - len(written.lstrip("."))
    if not dots:
        return parts
    if dots > len(home):
        raise UnknownReferenceError(f"${{{written}}} climbs past the top of the config")
    return (*(str(part) for part in home[: len(home) - dots]), *parts)


def member(node: Any, part: str) -> str | int | None:
    """``part`` as a key of a table or the position of an element of an array; None where it is neither."""
    if isinstance(node, Mapping):
        return part if part in node else None
    if isinstance(node, list) and re.fullmatch("[0-9]{1,9}", part) and int(part) < len(node):
        return int(part)
    return None


def unknown(
    written: str, path: tuple[str, ...], tree: Mapping[str, Any], *, compares: bool
) -> UnknownReferenceError:
    """The error of a reference to nothing; ``compares``: with the existing key that is nearest."""
    meant = dotted(path)
    message = f"${{{written}}} refers to nothing"
    if written != meant:
        message += f" ({meant})"
    near = nearest(meant, (dotted(key) for key, _ in walk(tree))) if compares else ""
    return UnknownReferenceError(message, "a key of this config", near)
