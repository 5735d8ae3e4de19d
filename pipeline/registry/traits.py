"""What an annotation says besides its type: secrets, listed choices, metrics' names, components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from pipeline.api.kinds import Kind
from pipeline.registry.fields import annotations_by_key

_NESTED_KINDS = {
    "torch.nn.modules.module.Module": Kind.MODEL,
    "torch.utils.data.dataset.Dataset": Kind.DATASET,
    "pipeline.api.metric.Metric": Kind.METRIC,
    "pipeline.api.hook.Hook": Kind.HOOK,
}  # by name, so that nothing imports torch before a component did

SECRETS = (SecretStr, SecretBytes, Secret)
"""Pydantic's types of what is not to be shown."""


def nested_kind(annotation: Any) -> Kind | None:
    """The kind whose base class an annotation is or inherits, so that a nested table builds it."""
    bases = annotation.__mro__ if isinstance(annotation, type) else ()
    names = (f"{base.__module__}.{base.__qualname__}" for base in bases)
    return next((_NESTED_KINDS[name] for name in names if name in _NESTED_KINDS), None)


def nested_kinds(annotation: Any) -> frozenset[Kind]:
    """The kinds of the components in an annotation: itself, in a list, table, union, model or dataclass."""
    kinds = (nested_kind(get_origin(one) or one) for one in _parts(annotation))
    return frozenset(kind for kind in kinds if kind)


def is_secret(annotation: Any) -> bool:
    """Whether an annotation is one of pydantic's secret types, or a list, table or union of them."""
    if annotation in SECRETS or get_origin(annotation) in SECRETS:
        return True
    return any(is_secret(argument) for argument in get_args(annotation))


def may_hold_secret(annotation: Any) -> bool:
    """Whether an annotation is secret, or contains a model or a dataclass with a secret among its fields."""
    return any(is_secret(one) for one in _parts(annotation))


def contains_itself(model: type[BaseModel]) -> bool:
    """Whether a model stands somewhere in its own fields."""
    return any(model in _parts(field) for field in annotations_by_key(model).values())


def _parts(annotation: Any) -> Iterator[Any]:
    """The annotation, and all that stands in it and in the fields of models and dataclasses."""
    pending, seen = [annotation], set()
    while pending:
        one = pending.pop()
        yield one
        pending += get_args(one)
        if isinstance(one, type) and one not in seen and not nested_kind(one):
            seen.add(one)
            pending += annotations_by_key(one).values()


def is_listed(annotation: Any, value: Any) -> bool:
    """Whether a Literal in an annotation has the value."""
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    return any(is_listed(argument, value) for argument in get_args(annotation))
