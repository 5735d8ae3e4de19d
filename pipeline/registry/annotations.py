"""From a component's annotation to what a TOML value must be to fit it.

Pydantic validates strictly; this module loosens exactly what the config promises (an array fits a
tuple, a string fits a Path, an Enum and a duration), and takes out what no config can hold.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from enum import Enum
from os import PathLike
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PydanticSchemaGenerationError,
    PydanticUserError,
    Strict,
    TypeAdapter,
    WithJsonSchema,
    create_model,
)

from pipeline.api.duration import parse_duration
from pipeline.api.kinds import Kind
from pipeline.config.wording import show
from pipeline.registry.annotation_text import annotation_text
from pipeline.registry.fields import annotations_by_key, is_record
from pipeline.registry.holders import as_written, with_tables
from pipeline.registry.traits import contains_itself, nested_kind, nested_kinds

_LISTS = (
    list,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterator,
)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_OBJECTS: dict[Any, str] = {collections.abc.Callable: "a callable", type: "a class"}


@dataclass(frozen=True)
class Unsettable:
    """An annotation that no TOML value fits."""

    reason: str
    """What it is, to follow "it is": ``a callable``."""


class NestedTable(dict[str, Any]):
    """A table that stands for a component of its own; not yet checked."""

    def __init__(self, kind: Kind, table: Mapping[str, Any]) -> None:
        super().__init__(table)
        self.kind = kind

    def __reduce__(self) -> tuple[type[NestedTable], tuple[Kind, dict[str, Any]]]:
        return NestedTable, (self.kind, dict(self))  # a validator may copy it

    def __getattr__(self, name: str) -> Any:  # an author's validator takes it for the component
        raise AttributeError(
            f"a config is validated before its components are built: this is the table of a {self.kind}, "
            f"which has no attribute {name!r}"
        )


@dataclass(frozen=True)
class Chosen:
    """A value that its annotation lists, as a Literal does."""

    value: Any


@dataclass(frozen=True)
class Record:
    """A table that stands for a dataclass.

    It is not made before paths in it are absolute, and the components in it are built.
    """

    type: type
    values: Mapping[str, Any]
    """What was given, validated."""


def settable(annotation: Any) -> Any | Unsettable:
    """The type for pydantic that takes what a config may write for an annotation."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner = settable(annotation.__origin__)
        return inner if isinstance(inner, Unsettable) else Annotated[inner, *annotation.__metadata__]
    if origin in (Union, types.UnionType):
        return _union(get_args(annotation))
    if origin is Literal:
        return _literal(annotation)
    base = origin or annotation
    if base in _OBJECTS:
        return Unsettable(_OBJECTS[base])
    if isinstance(base, type) and base not in (object, types.NoneType):
        return _class(base, get_args(annotation))
    return _other(annotation)


def _literal(annotation: Any) -> Any:
    def read(
        value: Any,
    ) -> Chosen:  # one for each, as typing caches, and takes choices in any order for equal
        return Chosen(value)

    return Annotated[annotation, AfterValidator(read)]


def _union(members: tuple[Any, ...]) -> Any | Unsettable:
    """The members that a config can hold; the others (Tensor, callables) are ignored."""
    converted = [settable(member) for member in members]
    kept = [member for member in converted if not isinstance(member, Unsettable)]
    refused = [member for member in converted if isinstance(member, Unsettable)]
    if refused and all(member in (None, types.NoneType) for member in kept):
        return refused[0]
    if any(_is_path(member) for member in members):
        kept = [member for member in kept if member is not str]  # "str | Path": a place in the file system
    return Union[tuple(kept)]  # noqa: UP007 -- the members are values


def _other(annotation: Any) -> Any | Unsettable:
    """What is neither a class nor a union: Any, None, a Literal, a TypeVar."""
    if annotation in (Any, inspect.Parameter.empty, object):
        return Any
    return annotation if _fits_pydantic(annotation) else Unsettable(f"a {annotation_text(annotation)}")


def _class(base: type, arguments: tuple[Any, ...]) -> Any | Unsettable:
    if base in _LISTS or base in _SETS or base in _MAPPINGS or base is tuple:
        return _container(base, arguments)
    if _is_path(base):
        return Annotated[base if issubclass(base, PurePath) else Path, Strict(False)]
    if issubclass(base, Enum):
        return Annotated[base, BeforeValidator(_enum_reader(base))]
    if base is timedelta:
        return Annotated[timedelta, BeforeValidator(_read_duration)]
    if kind := nested_kind(base):
        return _nested(kind)
    return _object(base, arguments)


def _object(base: type, arguments: tuple[Any, ...]) -> Any | Unsettable:
    if is_record(base):
        return _record(base)
    if issubclass(base, BaseModel) and nested_kinds(base):
        return _holder(base)
    whole = base[arguments] if arguments else base  # type: ignore[index]
    return whole if _fits_pydantic(whole) else Unsettable(f"an object of the type {base.__name__}")


def _holder(model: type[BaseModel]) -> Any | Unsettable:
    holder = holding_tables(model)
    if isinstance(holder, Unsettable):
        return holder
    return Annotated[holder, AfterValidator(as_written(model))]


def holding_tables(model: type[BaseModel]) -> type[BaseModel] | Unsettable:
    """A model that takes tables where its fields take components."""
    taking = {
        name: one.annotation for name, one in model.model_fields.items() if nested_kinds(one.annotation)
    }
    if taking and contains_itself(model):
        return Unsettable("a table that contains itself")
    tables = {name: settable(annotation) for name, annotation in taking.items()}
    refused = (one for one in tables.values() if isinstance(one, Unsettable))
    return next(refused, None) or with_tables(model, tables)


def _container(base: type, arguments: tuple[Any, ...]) -> Any | Unsettable:
    items = [item if item is Ellipsis or item == () else settable(item) for item in arguments]
    for item in items:
        if isinstance(item, Unsettable):
            return item
    if base in _LISTS:
        return list[items[0]] if items else list  # type: ignore[valid-type]
    if base in _MAPPINGS:
        return dict[tuple(items)] if items else dict  # type: ignore[misc]
    builtin: Any = tuple if base is tuple else frozenset if base is frozenset else set
    return Annotated[builtin[tuple(items)] if items else builtin, Strict(False)]


def _record(base: type) -> Any | Unsettable:
    """A dataclass: a table of its fields, each validated as an argument would be."""
    unsettable = Unsettable(f"an object of the type {base.__name__}")
    annotations = annotations_by_key(base)
    model_fields: dict[str, Any] = {}
    for number, item in enumerate(item for item in fields(base) if item.init):
        try:
            fitting = settable(annotations[item.name])
        except RecursionError:
            return Unsettable("a table that contains itself")
        required = item.default is MISSING and item.default_factory is MISSING
        if isinstance(fitting, Unsettable):
            if required:
                return unsettable
            continue
        model_fields[f"argument_{number}"] = (fitting, Field(... if required else None, alias=item.name))
    model = create_model(base.__name__, __config__=ConfigDict(strict=True, extra="forbid"), **model_fields)

    def read(value: BaseModel) -> Record:
        given = {
            str(field.alias): getattr(value, key)
            for key, field in type(value).model_fields.items()
            if key in value.model_fields_set
        }
        return Record(base, given)

    return Annotated[model, AfterValidator(read)]


def _nested(kind: Kind) -> Any:
    def read(value: Any) -> NestedTable:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise ValueError(f"expected a table with the type of a {kind}")
        return NestedTable(kind, value)

    schema = {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}
    schema["x-kind"] = str(kind)  # for editors: registry.json_schema
    return Annotated[Any, PlainValidator(read), WithJsonSchema(schema)]


def _enum_reader(enum: type[Enum]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, enum):
            return value
        for member in enum:
            if member.value == value and type(member.value) is type(value):  # True == 1, but is no 1
                return member
        if isinstance(value, str) and value in enum.__members__:
            return enum[value]
        raise ValueError(f"expected one of {', '.join(show(enum_text(member)) for member in enum)}")

    return read


def enum_text(member: Enum) -> str:
    """How a config writes a member: its value where that is text, else its name."""
    return member.value if type(member.value) is str else member.name


def _read_duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _is_path(annotation: Any) -> bool:
    base = get_origin(annotation) or annotation
    return isinstance(base, type) and (issubclass(base, PurePath) or base is PathLike)


def _fits_pydantic(annotation: Any) -> bool:
    """Whether pydantic knows how to validate a type without being told."""
    try:
        TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return False
    return True
