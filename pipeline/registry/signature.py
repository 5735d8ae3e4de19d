"""What a component is called with, read off its signature or its declared pydantic model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from pipeline.api.kinds import RULES, Kind
from pipeline.api.metric_name import is_measured
from pipeline.config.outline import own_keys
from pipeline.registry.annotation_text import annotation_text
from pipeline.registry.annotations import Unsettable, settable
from pipeline.registry.fields import resolve_hints
from pipeline.registry.traits import is_secret, may_hold_secret, nested_kinds

MISSING = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Parameter:
    """One argument of a component that its table may set, or one that no table can."""

    name: str
    text: str
    """Its type as its author wrote it."""
    type: Any | Unsettable
    """What pydantic validates it with."""
    default: Any = MISSING
    doc: str = ""
    annotation: Any = Any
    """Its type as it was resolved."""

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def secret(self) -> bool:
        return is_secret(self.type)

    @property
    def may_hold_secret(self) -> bool:
        """Whether its values are not to be shown."""
        return may_hold_secret(self.annotation)

    @property
    def nested(self) -> frozenset[Kind]:
        """The kinds of the components that its table, or one inside it, may stand for."""
        return nested_kinds(self.annotation)

    @property
    def measured(self) -> bool:
        """Whether it names a metric of the run."""
        return is_measured(self.annotation)

    @property
    def refusal(self) -> str | None:
        """Why no table can set it."""
        return f"it is {self.type.reason}" if isinstance(self.type, Unsettable) else None


@dataclass(frozen=True)
class Signature:
    """How a component is called."""

    parameters: tuple[Parameter, ...]
    """Without those that the engine passes."""
    engine_passes: frozenset[str] = frozenset()
    """The names among the parameters that the engine passes, by position or by name."""
    by_name: frozenset[str] = frozenset()
    """What the engine may pass by keyword."""
    takes_any: bool = False
    """It has ``**kwargs``: any further argument goes through unchecked."""
    refusal: str | None = None
    """Why a config cannot name the component at all."""
    shadowed: frozenset[str] = frozenset()
    """Parameters with the name of a key that the engine has in such a table, so that none can be set."""


def read_signature(kind: Kind, component: Callable[..., Any]) -> Signature:
    """The signature of a component, less what its kind is called with."""
    model = getattr(component, "config_model", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return _declared(kind, component, model)
    raw = _raw_parameters(component)
    if raw is None:
        return Signature((), takes_any=True)
    rules = RULES[kind]
    hints = resolve_hints(_called(component))
    positional = [parameter for parameter in raw if parameter.kind in _POSITIONAL]
    passed = positional[: len(rules.positional)]
    by_name = frozenset(parameter.name for parameter in raw if parameter.name in rules.by_name)
    rest = [
        parameter
        for parameter in raw
        if parameter not in passed and parameter.name not in by_name and parameter.kind not in _VARIADIC
    ]
    taken = own_keys(kind)
    parameters = tuple(_unless_taken(_parameter(parameter, hints), taken) for parameter in rest)
    return Signature(
        parameters,
        frozenset(parameter.name for parameter in passed) | by_name,
        by_name,
        any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in raw),
        _slot_refusal(kind, raw, passed, hints) or _required_refusal(parameters),
        frozenset(parameter.name for parameter in rest if parameter.name in taken),
    )


def _declared(kind: Kind, component: Callable[..., Any], model: type[BaseModel]) -> Signature:
    """The fields of a component's ``config_model``; they are passed on as keywords."""
    raw = _raw_parameters(component) or []
    by_name = frozenset(parameter.name for parameter in raw) & frozenset(RULES[kind].by_name)
    taken = own_keys(kind)
    parameters = tuple(
        Parameter(
            name,
            annotation_text(field.annotation),
            settable(field.annotation) if nested_kinds(field.annotation) else field.annotation,
            MISSING if field.is_required() else field.get_default(call_default_factory=False),
            field.description or "",
            field.annotation,
        )
        for name, field in model.model_fields.items()
    )
    parameters = tuple(_unless_taken(parameter, taken) for parameter in parameters)
    shadowed = frozenset(model.model_fields) & frozenset(taken)
    takes_any = model.model_config.get("extra") == "allow"
    return Signature(parameters, by_name, by_name, takes_any, _required_refusal(parameters), shadowed)


def _unless_taken(parameter: Parameter, taken: Collection[str]) -> Parameter:
    """The parameter; unsettable where a key of its name in the table is not the component's."""
    if parameter.name not in taken:
        return parameter
    return replace(parameter, type=Unsettable(f"called as a key of the engine's own, {parameter.name!r}"))


def _raw_parameters(component: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(component).parameters.values())
    except (ValueError, TypeError):  # compiled code without a signature: nothing is known of it
        return None


def _called(component: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose signature a component has, for its globals and annotations."""
    if not isinstance(component, type):
        return component if hasattr(component, "__globals__") else getattr(component, "func", component)
    if component.__init__ is not object.__init__:  # type: ignore[misc]
        return component.__init__  # type: ignore[misc, no-any-return]
    return component.__new__


def _parameter(raw: inspect.Parameter, hints: dict[str, Any]) -> Parameter:
    text = annotation_text(raw.annotation) if raw.annotation is not MISSING else "any"
    annotation = hints.get(raw.name, Any)
    fitting = settable(annotation)
    if raw.kind is inspect.Parameter.POSITIONAL_ONLY:
        fitting = Unsettable("positional-only")
    return Parameter(raw.name, text, fitting, raw.default, annotation=annotation)


def _slot_refusal(
    kind: Kind, raw: list[inspect.Parameter], passed: list[inspect.Parameter], hints: dict[str, Any]
) -> str | None:
    """Why the component cannot take what the engine passes by position."""
    rules = RULES[kind]
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in raw):
        return None
    if len(passed) < len(rules.positional):
        return (
            f"it takes no positional argument for the {rules.positional[len(passed)]} that the engine passes"
        )
    for expected, parameter in zip(rules.positional, passed, strict=True):
        elsewhere = any(other.name == expected for other in raw if other is not parameter)
        if parameter.name != expected and elsewhere:
            text = annotation_text(parameter.annotation)
            return (
                f"it requires {parameter.name!r} ({text}), which a config cannot hold, "
                f"where the engine passes the {expected}"
            )
    return None


def _required_refusal(parameters: tuple[Parameter, ...]) -> str | None:
    for parameter in parameters:
        if parameter.required and parameter.refusal:
            return (
                f"it requires {parameter.name!r} ({parameter.text}), and a config cannot hold that: "
                f"{parameter.refusal}"
            )
    return None
