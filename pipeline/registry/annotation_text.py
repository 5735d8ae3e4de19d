"""An annotation as one would write it, for messages and lists."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

_WORDS = {"Ellipsis": "...", "NoneType": "None"}
_QUOTED_OR_MODULES = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])"""
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def annotation_text(annotation: Any) -> str:
    """An annotation without the modules its names come from, and without what only a program reads.

    Of the marks of an ``Annotated`` those that bound the value stay; validators and discriminators go.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, list):  # the arguments of a Callable
        return _listed(annotation)
    if origin is Annotated:
        inner = annotation_text(annotation.__origin__)
        bounds = [text for mark in annotation.__metadata__ for text in _bounds(mark)]
        return f"Annotated[{', '.join([inner, *bounds])}]" if bounds else inner
    if origin in (Union, UnionType):
        return " | ".join(map(annotation_text, arguments))
    if origin is None or origin is Literal or not arguments:
        return _name(annotation)
    return _name(origin) + _listed(arguments)


def _listed(annotations: Sequence[Any]) -> str:
    return f"[{', '.join(map(annotation_text, annotations))}]"


def _name(annotation: Any) -> str:
    """The text of an annotation that has no others inside."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if not isinstance(text, str):
        text = inspect.formatannotation(text)
        text = _WORDS.get(text, text)
    return _QUOTED_OR_MODULES.sub(lambda match: match["quoted"] or "", text)


def _bounds(mark: Any) -> Iterator[str]:
    """What a mark says of the values: a text, and bounds of ``annotated_types``, also within a Field."""
    if isinstance(mark, FieldInfo):
        for inner in mark.metadata:
            yield from _bounds(inner)
    elif isinstance(mark, str) or type(mark).__module__ == "annotated_types":
        text = repr(mark)
        if not _ADDRESS.search(text):
            yield text
