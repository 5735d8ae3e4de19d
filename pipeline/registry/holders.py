"""Pydantic models with components among their fields, which a config writes as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from pydantic import BaseModel, create_model


def with_tables(model: type[BaseModel], tables: Mapping[str, Any]) -> type[BaseModel]:
    """The model with each field that takes a component taking the component's table instead.

    Its validators run on such a model, before any component is built.

    Args:
        tables: for each such field the type for pydantic that takes what a config may write.
    """
    fields: dict[str, Any] = {}
    for name, annotation in tables.items():
        taking = copy(model.model_fields[name])
        taking.annotation = annotation
        fields[name] = (annotation, taking)
    return create_model(model.__name__, __base__=model, **fields) if fields else model


def as_written(model: type[BaseModel]) -> Callable[[BaseModel], BaseModel]:
    """Makes an instance of what ``with_tables`` gave one of the author's own class again."""

    def read(value: BaseModel) -> BaseModel:
        object.__setattr__(
            value, "__class__", model
        )  # as it is: to validate it again would refuse the tables
        return value

    return read
