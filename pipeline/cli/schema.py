"""``pipeline schema``: a JSON Schema of the config and of everything installed, for editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeline.api.kinds import Kind
from pipeline.cli.output import CONFIG_ERROR, say, shown_errors

if TYPE_CHECKING:
    from pipeline.registry.json_schema import ComponentJson

Json = dict[str, Any]


def _open(**schema: Any) -> Json:
    """A schema that says itself that there may be other keys: tombi takes one that does not for closed."""
    return {**schema, "additionalProperties": True}


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_GLOBS = "globs on parameter names"
_TYPED = _open(required=["type"])
_ENGINE: Mapping[Kind, Mapping[str, Json]] = {kind: {} for kind in Kind} | {
    Kind.MODEL: {
        "weights": {
            "description": "A safetensors file to start from; with include, what its globs pick.",
            "anyOf": [
                _TEXT,
                {
                    "type": "object",
                    "properties": {"path": _TEXT, "include": _TEXTS},
                    "required": ["path"],
                    "additionalProperties": False,
                },
            ],
        },
        "freeze": {**_TEXTS, "description": f"Parameters that are not trained: {_GLOBS}."},
    },
    Kind.OPTIMIZER: {
        "groups": {
            "description": "Options that differ for some parameters.",
            "type": "array",
            "items": _open(
                type="object",
                properties={"params": {**_TEXTS, "description": f"The parameters: {_GLOBS}."}},
                required=["params"],
            ),
        }
    },
    Kind.SCHEDULER: {
        "interval": {"enum": ["step", "epoch"], "default": "step", "description": "When it is stepped."},
        "monitor": {**_TEXT, "description": "The metric that drives it, as eval/loss."},
    },
    Kind.HOOK: {
        "ranks": {
            "enum": ["all", "main", "local_main"],
            "description": "Where it runs; default: as it declares.",
        }
    },
}
_TOP: Mapping[str, Json] = {
    "name": {**_TEXT, "description": "The run's name; default: the file's."},
    "seed": {
        "type": "integer",
        "minimum": 0,
        "description": "The root of every random stream; default: drawn.",
    },
    "extends": {"anyOf": [_TEXT, _TEXTS], "description": "Configs that this one changes; later ones win."},
    "unset": {**_TEXTS, "description": "Keys to take out of what this config extends, as hooks.progress."},
    "set": {**_TEXTS, "description": "Overrides of what this config extends, as hooks.ema.decay=0.9."},
    "components": {**_TEXTS, "description": "Local files that register components, relative to this one."},
    "vars": _open(type="object", description="Free values, for use as ${vars.NAME}."),
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Write a JSON Schema of the config, with every installed component, to standard output.

    With it, a TOML language server completes names and checks arguments. Say in the first line of a config
    where it is: #:schema FILE

    Exit status: 0 written.
    """
    import json

    with shown_errors(CONFIG_ERROR):
        click.echo(json.dumps(editor_schema(), indent=1))


def editor_schema() -> Json:
    """The schema, as data; components that do not import are said on standard error and left out."""
    from pipeline.config.outline import NAMED, SETTINGS, SINGLE
    from pipeline.registry.json_schema import REFERENCE, settings_json
    from pipeline.registry.registry import Registry

    registry = Registry.discover()
    for warning in registry.warnings:
        say(f"warning: {warning}")
    components = registry.json_schemas(_ENGINE)
    definitions: Json = {"reference": REFERENCE}
    for component in components:
        definitions[component.key] = component.schema
        definitions |= component.definitions
    for kind in Kind:
        own = [component for component in components if component.kind == kind]
        definitions[str(kind)], definitions[f"{kind}.whole"] = _table(own), _whole_table(own)
    whole = {name: _reference(f"{kind}.whole") for name, kind in SINGLE.items()}
    for name, kind in NAMED.items():
        own = [component for component in components if component.kind == kind]
        definitions[f"all.{name}"] = _section(kind, own)
        definitions[f"all.{name}.whole"] = _whole_section(kind, own)
        whole[name] = _reference(f"all.{name}.whole")
    whole["train"] = _open(required=["global_batch_size"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run",
        "type": "object",
        "properties": {
            **_TOP,
            **{name: _reference(str(kind)) for name, kind in SINGLE.items()},
            **{name: _reference(f"all.{name}") for name in NAMED},
            **{name: settings_json(settings) for name, settings in SETTINGS.items()},
        },
        "additionalProperties": False,
        # Another file may have what this one lacks, or register names that are not installed.
        "if": {"anyOf": [_open(required=["extends"]), _open(required=["components"])]},
        "else": _open(properties=whole, required=["model", "dataset", "objective", "optimizer", "train"]),
        "$defs": definitions,
    }


def _table(components: Iterable[ComponentJson]) -> Json:
    """A component's table by its type, as far as it is there."""
    known = list(components)
    names = _names(known)
    return _open(
        type="object",
        properties={"type": {"description": "The component.", "anyOf": [{"enum": names}, _TEXT]}},
        allOf=[{"if": _is(component), "then": _reference(component.key)} for component in known],
        # Always true; for editors, which find a table's keys in alternatives, but not behind conditions.
        anyOf=[*(_reference(component.key) for component in known), _open(type="object")],
    )


def _whole_table(components: Iterable[ComponentJson]) -> Json:
    """What the table lacks, where no other file has more of it."""
    known = list(components)
    names = _names(known)
    defaults = known and known[0].kind in (Kind.METRIC, Kind.HOOK, Kind.SAMPLER)
    lacks = [
        {"if": _is(component), "then": _open(required=list(component.required))}
        for component in known
        if component.required
    ]
    typed = {"properties": {"type": {"enum": names}}, "required": [] if defaults else ["type"]}
    return _open(**typed, **({"allOf": lacks} if lacks else {}))


def _section(kind: Kind, components: Iterable[ComponentJson]) -> Json:
    """Tables under names of the user's; where the kind's type defaults to the name, it is that component."""
    any_of_kind = _reference(str(kind))
    if kind is Kind.DATASET:
        return {"type": "object", "additionalProperties": any_of_kind}
    named = {
        component.names[0]: _open(**{"if": _TYPED, "then": any_of_kind, "else": _reference(component.key)})
        for component in components
    }
    return {"type": "object", "properties": named, "additionalProperties": any_of_kind}


def _whole_section(kind: Kind, components: Iterable[ComponentJson]) -> Json:
    whole = _reference(f"{kind}.whole")
    if kind is Kind.DATASET:
        return {"required": ["train"], "additionalProperties": whole}
    named = {
        component.names[0]: _open(
            **{"if": _TYPED, "then": whole, "else": _open(required=list(component.required))}
        )
        for component in components
    }
    return {"properties": named, "additionalProperties": {"allOf": [whole, _TYPED]}}


def _names(components: Iterable[ComponentJson]) -> list[str]:
    """What a type may be, in the order in which an editor offers it: the short names first."""
    return sorted((name for component in components for name in component.names), key=lambda n: ("/" in n, n))


def _is(component: ComponentJson) -> Json:
    return _open(properties={"type": {"enum": list(component.names)}}, required=["type"])


def _reference(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}
