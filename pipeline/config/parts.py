"""Checking the components of a config against their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.api.kinds import RULES, Kind
from pipeline.config.draft import Draft
from pipeline.config.environment import check_reading_environment, writable
from pipeline.config.homes import with_home
from pipeline.config.keys import KeyPath, dotted, under
from pipeline.config.outline import NAMED, SINGLE, component_tables, default_type, own_keys
from pipeline.config.plan import CheckedTable, ComponentPlan, Fault
from pipeline.config.wording import show

REQUIRED = (("model",), ("dataset", "train"), ("objective",), ("optimizer",))
_HINTS = {
    ("model",): '[model] with type = "..."',
    ("dataset", "train"): '[dataset.train] with type = "..."',
    ("objective",): '[objective] with type = "..."',
    ("optimizer",): '[optimizer] with type = "..."',
}


@dataclass(frozen=True)
class Part:
    """One component of a config, checked."""

    path: KeyPath
    plan: ComponentPlan
    plain: Mapping[str, Any]
    """Its arguments as they are written into config.toml."""
    engine: Mapping[str, Any]
    """The engine's keys of its table, not checked yet."""
    paths: frozenset[KeyPath]
    """Where in the config its file paths stand."""
    secrets: frozenset[KeyPath]
    """Where in the config its secrets stand."""
    measured: frozenset[KeyPath]
    """Where in the config it names a metric of the run."""
    is_known: bool
    """Whether its type is one that the schemas know."""


def check_parts(draft: Draft) -> dict[KeyPath, Part]:
    """Check every component; problems are reported and what is left is as good as it gets."""
    _check_shape(draft)
    parts = {}
    for kind, path, table in component_tables(_with_sampler(draft.tree)):
        part = _check(draft, kind, path, table)
        if part is not None:
            parts[path] = part
    return parts


def _with_sampler(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    return tree if "sampler" in tree else {**tree, "sampler": {}}


def _check_shape(draft: Draft) -> None:
    """What must be a table is one, what must be there is there, and names can be used."""
    for section in SINGLE:
        draft.table((section,))
    for section in NAMED:
        for name in draft.table((section,)) or {}:
            draft.table((section, name))
            if "/" in name or any(character.isspace() for character in name):
                message = f"{show(name)} is no name for it"
                draft.complain((section, name), message, expected="no '/' and no white space")
    for path in REQUIRED:
        holder: Any = draft.tree
        for name in path:
            holder = holder.get(name) if isinstance(holder, Mapping) else holder
        if holder is None:
            draft.complain(path, "is missing", expected=_HINTS[path])


def _check(draft: Draft, kind: Kind, path: KeyPath, table: Mapping[str, Any]) -> Part | None:
    name = _type(draft, kind, path, table)
    if name is None:
        return None
    if path in draft.interpolated.environment or draft.variables_around(path):
        message = "a whole table comes from the environment"
        draft.complain(path, message, expected="variables for single values of it")
        return None
    given = {key: value for key, value in table.items() if key not in own_keys(kind)}
    checked = _checked(draft, kind, name, path, given)
    for fault in checked.faults:
        _complain(draft, path, fault, secrets=checked.secrets)
    for key in sorted(checked.shadowed & table.keys()):
        draft.warn(
            f"{dotted((*path, key))}: is the engine's own key in such a table; the argument {key!r} of "
            f"{name!r} cannot be set from a config and keeps its default"
        )
    return Part(
        path=path,
        plan=ComponentPlan(kind, dotted(path), name, checked.arguments, draft.place(path)),
        plain={"type": name, **writable(draft, path, checked)},
        engine={key: table[key] for key in RULES[kind].engine_keys if key in table},
        paths=frozenset((*path, *inside) for inside in checked.paths),
        secrets=frozenset((*path, *inside) for inside in checked.secrets),
        measured=frozenset((*path, *inside) for inside in checked.measured),
        is_known=not any(fault.path == ("type",) for fault in checked.faults),
    )


def _complain(draft: Draft, path: KeyPath, fault: Fault, *, secrets: frozenset[KeyPath]) -> None:
    """Report a fault; a secret's value is not repeated, and a key that is valid elsewhere says where.

    A name that nobody has is passed over where a local file, which may have it, is at fault itself.
    """
    if fault.is_unknown_name and draft.lacks_names:
        return
    if any(under(fault.path, secret) for secret in secrets):
        fault = Fault(fault.path, "the secret does not fit", fault.expected)
    elif fault.is_unknown_key and len(fault.path) == 1:
        fault = with_home(draft.homes, path, fault)
    draft.complain_of_fault(path, fault)


def _type(draft: Draft, kind: Kind, path: KeyPath, table: Mapping[str, Any]) -> str | None:
    name = table.get("type", default_type(kind, str(path[-1])))
    if isinstance(name, str) and name:
        return name
    if name is None:
        draft.complain((*path, "type"), "is missing", expected=f"the name of a {kind}")
    else:
        draft.complain((*path, "type"), f"got {show(name)}", expected=f"the name of a {kind}, as a string")
    return None


def _checked(
    draft: Draft, kind: Kind, name: str, path: KeyPath, given: Mapping[str, Any], *, only: bool = False
) -> CheckedTable:
    folders = {key: draft.merged.origin((*path, key)).folder for key in given}
    return check_reading_environment(
        draft,
        path,
        given,
        lambda table: draft.schemas.check(kind, name, table, folders=folders, only=only),
    )


def check_options(draft: Draft, optimizer: Part, path: KeyPath, given: Mapping[str, Any]) -> CheckedTable:
    """Check the options of one parameter group as arguments of its optimizer."""
    plan = optimizer.plan
    checked = _checked(draft, plan.kind, plan.type, path, given, only=True)
    for fault in checked.faults if optimizer.is_known else ():
        draft.complain_of_fault(path, fault)
    return checked


def named(parts: Mapping[KeyPath, Part], section: str) -> Iterator[tuple[str, Part]]:
    """The parts under ``dataset``, ``metrics`` or ``hooks``, by name, in the file's order."""
    for path, part in parts.items():
        if path[0] == section and len(path) == 2:
            yield str(path[1]), part
