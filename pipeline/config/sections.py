"""The engine's own tables, validated against their dataclasses in ``pipeline.api.settings``.

Pydantic, which is slow to import, is asked only where a value does not plainly fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

from pipeline.api.duration import parse_duration
from pipeline.config.faults import as_faults
from pipeline.config.fitting import UnsureError, fitted, toml_of
from pipeline.config.outline import SETTINGS
from pipeline.config.plan import CheckedTable

if TYPE_CHECKING:
    from pydantic import BaseModel


def check_settings(section: str, table: Mapping[str, Any]) -> CheckedTable:
    """Validate [train], [loader] or [distributed] strictly, except that an int fits a float.

    ``arguments`` are the keywords of the section's dataclass, defaults filled in; ``plain`` the same
    as TOML values, without what is None.
    """
    try:
        return _plainly_checked(section, table)
    except UnsureError:
        return _validated(section, table)


def _plainly_checked(section: str, table: Mapping[str, Any]) -> CheckedTable:
    arguments = {}
    for field in fields(SETTINGS[section]):
        if field.name in table:
            arguments[field.name] = fitted(_hints(section)[field.name], table[field.name])
        elif field.default is MISSING:
            raise UnsureError(f"{field.name} is missing")
        else:
            arguments[field.name] = field.default
    if table.keys() - arguments.keys():
        raise UnsureError("unknown keys")
    return _checked(arguments)


def _validated(section: str, table: Mapping[str, Any]) -> CheckedTable:
    from pydantic import ValidationError

    model = _model(section)
    try:
        checked = model.model_validate(dict(table))
    except ValidationError as error:
        names = tuple(model.model_fields)
        faults = as_faults(error, table, keys_at=lambda path: () if path else names)
        return CheckedTable({}, {}, faults=tuple(faults))
    return _checked({name: getattr(checked, name) for name in model.model_fields})


def _checked(arguments: Mapping[str, Any]) -> CheckedTable:
    plain = {name: toml_of(value) for name, value in arguments.items() if value is not None}
    return CheckedTable(arguments, plain)


@cache
def _hints(section: str) -> Mapping[str, Any]:
    return get_type_hints(SETTINGS[section], include_extras=True)


@cache
def _model(section: str) -> type[BaseModel]:
    """A pydantic model with the fields of the section's dataclass."""
    from pydantic import ConfigDict, create_model

    settings, hints = SETTINGS[section], _hints(section)
    definitions: dict[str, Any] = {
        field.name: (_readable(hints[field.name]), ... if field.default is MISSING else field.default)
        for field in fields(settings)
    }
    config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
    return create_model(settings.__name__, __config__=config, **definitions)


def _readable(annotation: Any) -> Any:
    """The annotation, taking what TOML has for it: an array for a tuple, a string for a duration."""
    from pydantic import BeforeValidator

    if get_origin(annotation) is tuple:
        return Annotated[annotation, BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]
    if annotation is timedelta:
        return Annotated[annotation, BeforeValidator(_duration)]
    return annotation


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value
