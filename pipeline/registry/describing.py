"""What `pipeline components` shows: the list of components, and one of them in full."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tomli_w

from pipeline.api.kinds import Kind
from pipeline.registry.annotations import enum_text
from pipeline.registry.listing import Listing
from pipeline.registry.plain import NoTomlForm, plain
from pipeline.registry.schema import Schema
from pipeline.registry.signature import Parameter

_HEADERS = {Kind.DATASET: "dataset.train", Kind.METRIC: "metrics.{}", Kind.HOOK: "hooks.{}"}
_EXAMPLES = {"monitor": "eval/loss"}
"""Values for arguments whose name says what they mean, so that the table validates as it is."""
_PLACEHOLDERS: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (int, 1),
    (float, 0.1),
    (list, []),
    (dict, {}),
    (datetime, datetime(2000, 1, 1)),
    (date, date(2000, 1, 1)),
    (time, time(0)),
)


@dataclass(frozen=True)
class ParameterDescription:
    """One argument of a component."""

    name: str
    type: str
    required: bool
    default: Any
    """As TOML has it; None where there is none, or none that TOML can write."""
    doc: str
    refusal: str | None
    """Why no config can set it."""


@dataclass(frozen=True)
class Description:
    """One component in full."""

    listing: Listing
    doc: str = ""
    parameters: tuple[ParameterDescription, ...] = ()
    deprecated: str = ""
    """What its author says with ``warnings.deprecated``; empty: it is not."""
    takes_any: bool = False
    """It takes further arguments, unchecked."""
    refused: str | None = None
    """Why no config can name it."""
    problem: str | None = None
    """Why it does not import, with the original traceback."""
    table: str = ""
    """A table to paste: required arguments with a value to replace, the others commented out."""


def describe(listing: Listing, component: Callable[..., Any], schema: Schema) -> Description:
    """Describe a component that is imported."""
    doc = inspect.getdoc(component) or ""
    init_doc = (
        inspect.getdoc(getattr(component, "__init__", None)) or "" if isinstance(component, type) else ""
    )
    docs = _argument_docs(init_doc) | _argument_docs(doc)
    parameters = tuple(
        ParameterDescription(
            parameter.name,
            parameter.text,
            parameter.required,
            _default(parameter, schema),
            parameter.doc or docs.get(parameter.name, ""),
            parameter.refusal,
        )
        for parameter in schema.signature.parameters
    )
    table = "" if schema.refusal else _table(listing, schema)
    return Description(
        listing,
        doc,
        parameters,
        str(getattr(component, "__deprecated__", "")),
        schema.signature.takes_any,
        schema.refusal,
        listing.problem,
        table,
    )


def _default(parameter: Parameter, schema: Schema) -> Any:
    try:
        value = schema.defaults.get(parameter.name)
        return None if value is None else plain(value)
    except NoTomlForm:
        return None


def _argument_docs(doc: str) -> dict[str, str]:
    """The texts of an "Args:" section, Google's way, by argument; their first paragraph on one line."""
    section = re.search(r"^\s*Arg(?:ument)?s:\s*\n(.*?)(?=^\S|\Z)", doc, re.MULTILINE | re.DOTALL)
    if section is None:
        return {}
    body = inspect.cleandoc(section[1])
    entries = re.findall(r"^([A-Za-z_][\w, ]*?)(?: \([^)]*\))?: (.*(?:\n[ \t]+.*)*)", body, re.MULTILINE)
    return {
        name: " ".join(text.split("\n\n")[0].split())
        for names, text in entries
        for name in re.split(", *", names)
    }


def _table(listing: Listing, schema: Schema) -> str:
    header = _HEADERS.get(listing.kind, str(listing.kind)).format(listing.name)
    type_name = listing.qualified if listing.clash else listing.name
    lines = [f"[{header}]", _assignment("type", type_name)]
    for parameter in schema.settable.values():
        if parameter.required:
            value = _EXAMPLES.get(parameter.name, _placeholder(parameter.type))
            lines.append(f"{_assignment(parameter.name, value)}  # {parameter.text}: required, set it")
            continue
        default = _default(parameter, schema)
        if default is None:
            lines.append(f"# {parameter.name} = ...  # {parameter.text}")
        else:
            lines.append(f"# {_assignment(parameter.name, default)}")
    return "\n".join(lines) + "\n"


def _assignment(name: str, value: Any) -> str:
    """``name = value`` on one line, tables inline."""
    if isinstance(value, dict):
        return f"{name} = {{ {', '.join(_assignment(key, item) for key, item in value.items())} }}"
    text = tomli_w.dumps({name: value}).strip()
    return re.sub(r"\s*\n\s*", " ", text).replace("[ ", "[").replace(", ]", "]")


def _placeholder(annotation: Any) -> Any:
    """Some value of an annotation's type, to be replaced."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType, Annotated) or hasattr(annotation, "__metadata__"):
        return _placeholder(arguments[0])
    base = origin or annotation
    return _class_placeholder(base, arguments) if isinstance(base, type) else "..."


def _class_placeholder(base: type, arguments: tuple[Any, ...]) -> Any:
    if issubclass(base, Enum):
        return enum_text(next(iter(base)))
    if issubclass(base, list) and arguments:
        return [_placeholder(arguments[0])]
    if issubclass(base, (tuple, set, frozenset)):
        return [_placeholder(item) for item in arguments if item is not Ellipsis]
    return next((value for type_, value in _PLACEHOLDERS if issubclass(base, type_)), "...")
