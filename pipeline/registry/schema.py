"""A component's schema: its table validated, completed with defaults, and as TOML again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from pipeline.api.kinds import Kind
from pipeline.config.faults import as_faults
from pipeline.config.keys import KeyPath
from pipeline.config.plan import CheckedTable, Fault
from pipeline.config.wording import listed, nearest
from pipeline.registry.annotations import Unsettable, holding_tables
from pipeline.registry.contracts import class_refusal
from pipeline.registry.finished import CheckNested, Finished
from pipeline.registry.nested import keys_at, nested_tables
from pipeline.registry.plain import NoTomlForm, plain
from pipeline.registry.signature import Parameter, Signature, read_signature
from pipeline.registry.tracebacks import user_traceback


@dataclass(frozen=True)
class Schema:
    """What a component's table may hold."""

    signature: Signature
    refusal: str | None
    """Why no config can name the component; None: it can."""
    declared: type[BaseModel] | None = None
    """The component's own ``config_model``, which validates instead of the signature."""

    @cached_property
    def settable(self) -> dict[str, Parameter]:
        """The parameters that a table may set, in the signature's order."""
        return {p.name: p for p in self.signature.parameters if not isinstance(p.type, Unsettable)}

    @cached_property
    def validator(self) -> type[BaseModel]:
        """All arguments optional: what is missing is told in our own words, and groups give a part."""
        fields: dict[str, Any] = {  # aliased, since an argument may be named as a method of BaseModel
            f"argument_{index}": (parameter.type, Field(None, alias=parameter.name))
            for index, parameter in enumerate(self.settable.values())
        }
        return create_model("Arguments", __config__=ConfigDict(strict=True), **fields)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The defaults that TOML can write, as the validated values that writing them would give.

        The others are left to the component itself.
        """
        found: dict[str, Any] = {}
        for parameter in self.settable.values():
            if parameter.required:
                continue
            try:
                written = {} if parameter.default is None else {parameter.name: plain(parameter.default)}
            except NoTomlForm:
                continue
            try:
                found |= self._validated(written) or {parameter.name: None}
            except ValidationError:  # as in "x: int = None"; or a default that the author's own type refuses
                found[parameter.name] = parameter.default
        return found

    def _validated(self, given: Mapping[str, Any]) -> dict[str, Any]:
        model = self.validator.model_validate(dict(given))
        names = list(self.settable)
        return {
            names[int(key.removeprefix("argument_"))]: getattr(model, key) for key in model.model_fields_set
        }

    def check(
        self, table: Mapping[str, Any], folders: Mapping[str, Path], nested: CheckNested, *, only: bool
    ) -> CheckedTable:
        """Validate a table without ``type`` and engine keys; every fault at once."""
        faults = self._name_faults(table, only=only)
        given = {name: value for name, value in table.items() if name in self.settable}
        values: dict[str, Any] = {}
        try:
            if self.declared and not only:
                if not faults:
                    model = self.declared.model_validate(dict(table))
                    values = {name: getattr(model, name) for name in type(model).model_fields}
                    values |= model.model_extra or {}
            else:
                values = ({} if only else self.defaults) | self._validated(given)
                if self.signature.takes_any:
                    values |= {name: value for name, value in table.items() if name not in given}
        except ValidationError as error:
            notes = {name: parameter.text for name, parameter in self.settable.items()}
            hidden = [name for name, parameter in self.settable.items() if parameter.may_hold_secret]
            faults += as_faults(error, table, keys_at=self._keys_at, notes=notes, secrets=hidden)
            faults += self._faults_of_nested(table, folders, nested)
        except Exception as error:  # noqa: BLE001 -- the author's own validators may raise anything
            faults.append(self._own_failure(error))
        secrets: set[KeyPath] = {(name,) for name, parameter in self.settable.items() if parameter.secret}
        finished = Finished(table, folders, nested, secrets=secrets)
        for name in sorted(values, key=self._position):
            finished.add(name, values[name])
        return finished.result(faults, measured=self.measured, shadowed=self.signature.shadowed)

    def _keys_at(self, path: KeyPath) -> list[str]:
        parameter = self.settable.get(str(path[0])) if path else None
        return keys_at(parameter.annotation, path[1:]) if parameter else []

    def _faults_of_nested(
        self, table: Mapping[str, Any], folders: Mapping[str, Path], nested: CheckNested
    ) -> list[Fault]:
        """What is wrong with nested components beside other faults of the table."""
        finished = Finished(table, folders, nested)
        for name, parameter in self.settable.items():
            found = dict(nested_tables(parameter.annotation, table.get(name), (name,)))
            for path, inner in found.items():
                finished.component(path, inner)
        return finished.faults

    def _own_failure(self, error: Exception) -> Fault:
        """What a component's own validator raised that is no answer to the table; no secret is repeated."""
        message = f"its own validation fails: {type(error).__name__}"
        if any(parameter.may_hold_secret for parameter in self.signature.parameters):
            return Fault((), message)
        return Fault((), f"{message}: {error}", detail=user_traceback(error))

    @cached_property
    def measured(self) -> frozenset[KeyPath]:
        """The arguments that name a metric of the run."""
        return frozenset((name,) for name, parameter in self.settable.items() if parameter.measured)

    def _position(self, name: str) -> int:
        return list(self.settable).index(name) if name in self.settable else len(self.settable)

    def _name_faults(self, table: Mapping[str, Any], *, only: bool) -> list[Fault]:
        faults = [fault for name in table if (fault := self._name_fault(name))]
        if not only:
            faults += [
                Fault((name,), "is missing", f"{name} = ... ({parameter.text})")
                for name, parameter in self.settable.items()
                if parameter.required and name not in table
            ]
        return faults

    def _name_fault(self, name: str) -> Fault | None:
        if name in self.settable:
            return None
        for parameter in self.signature.parameters:
            if parameter.name == name:
                return Fault((name,), f"no config can set this argument: {parameter.refusal}")
        if name in self.signature.engine_passes:
            return Fault((name,), "the engine passes this argument itself", "a table without it")
        if self.signature.takes_any:
            return None
        near = nearest(name, self.settable)
        expected = "" if near else listed(self.settable) or "no argument at all"
        return Fault((name,), "unknown argument", expected, near, is_unknown_key=True)


def schema_of(kind: Kind, component: Callable[..., Any]) -> Schema:
    """Read the schema of a component that is already imported."""
    signature = read_signature(kind, component)
    model = getattr(component, "config_model", None)
    declared = None
    if isinstance(model, type) and issubclass(model, BaseModel) and not signature.refusal:
        declared = holding_tables(model)
    if isinstance(declared, Unsettable):
        return Schema(signature, f"its config_model cannot be written in a config: it is {declared.reason}")
    return Schema(signature, signature.refusal or class_refusal(kind, component), declared)
