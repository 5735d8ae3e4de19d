"""What a table that stands for a pydantic model or a dataclass may hold, and of what types."""

from __future__ import annotations

import collections.abc
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel


def resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's parameters, or a class's own ones.

    Each is resolved by itself; one that does not resolve is ``Any``. Names imported under
    TYPE_CHECKING alone are looked for in typing and collections.abc as well.
    """
    function = inspect.unwrap(function)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    own = getattr(function, "__globals__", vars(module) if module else {})
    namespace = {**vars(typing), **vars(collections.abc), **own}
    hints = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints.update(typing.get_type_hints(holder, namespace, include_extras=True))
        except (NameError, AttributeError, TypeError, SyntaxError):
            hints[name] = Any
    return hints


def is_record(annotation: Any) -> bool:
    """Whether an annotation is a dataclass that does not say itself how pydantic reads it."""
    has_own_schema = hasattr(annotation, "__get_pydantic_core_schema__")
    return isinstance(annotation, type) and is_dataclass(annotation) and not has_own_schema


def annotations_by_key(annotation: Any) -> Mapping[str, Any]:
    """The keys of a model's or a dataclass's table, each with its annotation; none for any other type."""
    if is_record(annotation):
        hints: dict[str, Any] = {}
        for parent in reversed(annotation.__mro__):
            hints |= resolve_hints(parent)
        return {field.name: hints.get(field.name, Any) for field in fields(annotation) if field.init}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {key_of(annotation, name): field.annotation for name, field in annotation.model_fields.items()}
    return {}


def key_of(model: type[BaseModel], name: str) -> str:
    """The key that a model reads a field from."""
    alias = model.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else name
