"""A component's schema as JSON Schema (2020-12), for editors: what its table may hold, as TOML has it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticOmit, core_schema

from pipeline.api.duration import JSON_PATTERN
from pipeline.api.kinds import Kind
from pipeline.registry.annotations import enum_text
from pipeline.registry.describing import Description
from pipeline.registry.plain import plain
from pipeline.registry.schema import Schema

REFERENCE = {"type": "string", "pattern": r"\$\{", "description": "A reference, as ${vars.NAME}."}
"""What may stand in place of any value; the definition ``reference``."""

Json = dict[str, Any]


class TomlJsonSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema with the forms that values have in TOML."""

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": JSON_PATTERN, "description": "As 30 s, 10 min, 1 h."}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return {"enum": [enum_text(member) for member in schema["members"]]}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # TOML has no null: the key is left out

    def handle_invalid_for_json_schema(
        self, schema: core_schema.CoreSchema, error_info: str
    ) -> JsonSchemaValue:
        return {}  # an author's own type with a validator: anything, as far as an editor knows

    def encode_default(self, dft: Any) -> Any:
        raise PydanticOmit  # the registry says how TOML writes it

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


@dataclass(frozen=True)
class ComponentJson:
    """One component for an editor."""

    kind: Kind
    names: tuple[str, ...]
    """What its ``type`` may be: the short name where that is enough, and the qualified one."""
    schema: Json
    required: tuple[str, ...]
    definitions: Json
    """What the schema refers to as ``#/$defs/...``."""

    @property
    def key(self) -> str:
        """Its own place among the definitions."""
        return f"{self.kind}.{self.names[0]}"


def component_json(description: Description, schema: Schema, engine: Mapping[str, Json]) -> ComponentJson:
    """The schema of a component's table.

    Args:
        engine: the schemas of the engine's keys of the component's kind.
    """
    kind, name = description.listing.kind, description.listing.qualified
    model: type[BaseModel] = schema.declared or schema.validator
    whole = model.model_json_schema(
        by_alias=True, ref_template=f"#/$defs/{kind}.{name}.{{model}}", schema_generator=TomlJsonSchema
    )
    told = {parameter.name: parameter for parameter in description.parameters}
    listing = description.listing
    names = (listing.qualified,) if listing.clash else (listing.name, listing.qualified)
    properties: Json = {"type": {"enum": list(names)}}
    for key, value in whole.get("properties", {}).items():
        parameter = told.get(key)
        properties[key] = _annotated(
            value, parameter.doc if parameter else "", parameter.default if parameter else None
        )
    found: Json = {
        "title": description.listing.name,
        "description": " ".join(description.doc.split("\n\n")[0].split()),
        "type": "object",
        "properties": {**properties, **engine},
        "additionalProperties": description.takes_any,
    }
    if description.deprecated:
        found["deprecated"] = True
    definitions = {f"{kind}.{name}.{key}": value for key, value in whole.get("$defs", {}).items()}
    return ComponentJson(
        listing.kind,
        names,
        _placed(found),
        tuple(parameter.name for parameter in description.parameters if parameter.required),
        {key: _placed(value) for key, value in definitions.items()},
    )


def _annotated(value: Json, doc: str, default: Any) -> Json:
    """A value's schema, or a reference in its place; with its documentation and default."""
    noted = {key: value[key] for key in ("description", "deprecated") if key in value}
    bare = {key: item for key, item in value.items() if key not in ("title", "description", "deprecated")}
    found = referable(bare) | noted
    if doc:
        found["description"] = doc
    if default is not None:
        found["default"] = default
    return found


def referable(value: Json) -> Json:
    """A schema that takes a ``${...}`` in place of the value, and of what an array holds."""
    if value.get("type") == "array" and isinstance(value.get("items"), dict):
        value = {**value, "items": referable(value["items"])}
    if not value or (
        value.get("type") == "string" and not value.keys() & {"enum", "const", "pattern", "format"}
    ):
        return value
    return {"anyOf": [{"$ref": "#/$defs/reference"}, *value.get("anyOf", [value])]}


def _placed(value: Any) -> Any:
    """Nested components' tables as references to their kinds' schemas."""
    if isinstance(value, dict):
        if "x-kind" in value:
            return {"$ref": f"#/$defs/{value['x-kind']}"}
        return {key: _placed(item) for key, item in value.items()}
    return [_placed(item) for item in value] if isinstance(value, list) else value


def settings_json(settings: type[Any]) -> Json:
    """The schema of one of the engine's own tables: a dataclass whose fields have a text after them."""
    whole = TypeAdapter(settings).json_schema(schema_generator=TomlJsonSchema)
    docs, defaults = _field_docs(settings), {field.name: field.default for field in fields(settings)}
    properties = {
        name: _annotated(value, docs.get(name, ""), _toml_default(defaults[name]))
        for name, value in whole["properties"].items()
    }
    return {
        "title": settings.__name__,
        "description": inspect.getdoc(settings),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _field_docs(settings: type[Any]) -> dict[str, str]:
    """The text after each field."""
    (definition,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _toml_default(value: Any) -> Any:
    return None if value is None or value is MISSING else plain(value)
