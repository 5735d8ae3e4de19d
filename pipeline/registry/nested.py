"""Components within a component's arguments: found there, and put there once they are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from pipeline.config.keys import KeyPath, children
from pipeline.config.plan import ComponentPlan
from pipeline.registry.annotations import NestedTable, Record, Unsettable, settable
from pipeline.registry.fields import annotations_by_key
from pipeline.registry.traits import nested_kind

_SAME_PLACE = (Union, UnionType, Annotated)
"""What stands around an annotation without a table or an array of its own."""


def nested_plans(value: Any) -> Iterator[ComponentPlan]:
    """The plans in an argument, or in all of them; not those within these."""
    if isinstance(value, ComponentPlan):
        yield value
    elif isinstance(value, Record):
        yield from nested_plans(value.values)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from nested_plans(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from nested_plans(item)
    elif isinstance(value, BaseModel):
        for _, item in value:
            yield from nested_plans(item)


def nested_tables(annotation: Any, value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, NestedTable]]:
    """The tables in an argument that stand for components, whatever else in it is wrong."""
    base = get_origin(annotation) or annotation
    if isinstance(value, dict) and (kind := nested_kind(base)):
        if isinstance(value.get("type"), str):
            yield path, NestedTable(kind, value)
    elif keys := annotations_by_key(base):
        for part, item in children(value):
            if part in keys:
                yield from nested_tables(keys[str(part)], item, (*path, part))
    else:
        inside = [((), value)] if base in _SAME_PLACE else [((part,), item) for part, item in children(value)]
        for inner, item in inside:
            for argument in get_args(annotation):
                yield from nested_tables(argument, item, (*path, *inner))


def keys_at(annotation: Any, path: KeyPath) -> list[str]:
    """The keys of the model or dataclass that an argument holds at a path; none where none stands there."""
    base = get_origin(annotation) or annotation
    if keys := annotations_by_key(base):
        if not path:
            return [key for key in keys if not isinstance(settable(keys[key]), Unsettable)]
        return keys_at(keys[str(path[0])], path[1:]) if path[0] in keys else []
    rest = path if base in _SAME_PLACE else path[1:]
    if not path and base not in _SAME_PLACE:
        return []
    return [key for argument in get_args(annotation) for key in keys_at(argument, rest)]


def built(value: Any, nested: Mapping[int, Callable[..., Any]]) -> Any:
    """An argument with its nested components built; containers are copied, so the plan stays as it is.

    Args:
        nested: the factory of each nested plan, by the plan's ``id``.
    """
    if isinstance(value, ComponentPlan):
        return nested[id(value)]()
    if isinstance(value, Record):
        return value.type(**built(dict(value.values), nested))
    if type(value) is dict:
        return {key: built(item, nested) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(built(item, nested) for item in value)
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: built(item, nested) for name, item in value})
    return value
