"""The registry: what is installed, what a table may hold, and the factories of a plan's components."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.api.kinds import Kind
from pipeline.api.register import Registration
from pipeline.config.plan import CheckedTable, ComponentPlan, Fault
from pipeline.errors import ComponentError
from pipeline.registry.catalog import Catalog, Claim
from pipeline.registry.discovery import Discovery, Entry, discover_installed
from pipeline.registry.listing import Listing, listing_of
from pipeline.registry.loading import load_entry, visible_problem
from pipeline.registry.local import LocalFile, load_files
from pipeline.registry.provenance import Provenance, provenance_of

if TYPE_CHECKING:
    from pipeline.registry.describing import Description
    from pipeline.registry.json_schema import ComponentJson
    from pipeline.registry.schema import Schema


@dataclass(frozen=True)
class _Loaded:
    """A component that was imported."""

    claim: Claim
    component: Callable[..., Any]
    schema: Schema


class Registry:
    """Finds components by kind and name; imports one when a config names it, and at no other time."""

    def __init__(self, discovery: Discovery) -> None:
        self.warnings = discovery.warnings
        self._files: dict[str, LocalFile] = {}
        self._catalog = Catalog(discovery.entries, self._files)
        self._loaded: dict[Entry | Registration, _Loaded | Fault] = {}

    @classmethod
    def discover(cls) -> Registry:
        """The registry of what is installed; the metadata on the path is read once per process."""
        return cls(discover_installed())

    def load_local(self, paths: Sequence[Path]) -> tuple[Fault, ...]:
        """Import local files, so that what they register can be named.

        Returns:
            What went wrong, for each file; a fault's path is the file's index in ``paths``.
        """
        files, faults = load_files(list(paths))
        self._files |= {file.module: file for file in files}
        return tuple(faults)

    def accepts(self, kind: Kind, type_name: str) -> frozenset[str] | None:
        """The arguments that a component takes; None where it is unknown, broken or takes any."""
        found = self._find(kind, type_name)
        if isinstance(found, Fault) or found.schema.signature.takes_any:
            return None
        return frozenset(found.schema.settable)

    def nested(self, kind: Kind, type_name: str) -> Mapping[str, Kind]:
        """The arguments that take a component, in a list or table too, each with its kind."""
        found = self._find(kind, type_name)
        if isinstance(found, Fault):
            return {}
        arguments = found.schema.settable.items()
        return {
            name: next(iter(argument.nested)) for name, argument in arguments if len(argument.nested) == 1
        }

    def check(
        self,
        kind: Kind,
        type_name: str,
        table: Mapping[str, Any],
        *,
        folders: Mapping[str, Path],
        only: bool = False,
    ) -> CheckedTable:
        """Validate a component's table, as ``pipeline.config.plan.SchemaSource`` has it."""
        found = self._find(kind, type_name)
        if isinstance(found, _Loaded) and found.schema.refusal:
            message = f"the {kind} {type_name!r} cannot be used from a config: {found.schema.refusal}"
            found = Fault(("type",), message)
        if isinstance(found, Fault):
            return CheckedTable({}, {}, faults=(found,))
        return found.schema.check(table, folders, self._check_nested, only=only)

    def _check_nested(
        self, kind: Kind, type_name: str, table: Mapping[str, Any], folder: Path | None
    ) -> CheckedTable:
        folders = dict.fromkeys(table, folder) if folder else {}
        return self.check(kind, type_name, table, folders=folders)

    def bind(self, plan: ComponentPlan) -> Callable[..., Any]:
        """A factory of a plan's component: ``factory(*positional, **by_name)``.

        It passes on what the engine gives by position, what the signature has of ``by_name``, and
        the plan's arguments, nested components built first. What the component itself raises passes
        through unchanged; a product that breaks its kind's contract is a ComponentError.

        Raises:
            ComponentError: if the component cannot be found, loaded or used from a config.
        """
        from pipeline.registry.contracts import check_product
        from pipeline.registry.nested import built, nested_plans

        found = self._loaded_for(plan)
        nested = {
            id(inner): self.bind(replace(inner, key=f"{plan.key}.{inner.key}"))
            for inner in nested_plans(plan.arguments)
        }
        engine_names = found.schema.signature.by_name
        origin = f"{plan.key}: {plan.kind} {plan.type!r}, {found.claim.origin},"

        def factory(*positional: Any, **by_name: Any) -> Any:
            passed = {name: value for name, value in by_name.items() if name in engine_names}
            arguments = {name: built(value, nested) for name, value in plan.arguments.items()}
            product = found.component(*positional, **passed, **arguments)
            check_product(plan.kind, product, origin)
            return product

        return factory

    def takes(self, plan: ComponentPlan) -> frozenset[str]:
        """What the engine passes by name because the component's signature has it, as ``total_steps``.

        Raises:
            ComponentError: if the component cannot be found, loaded or used from a config.
        """
        return frozenset(self._loaded_for(plan).schema.signature.by_name)

    def declaration(self, plan: ComponentPlan) -> Callable[[int], Any] | None:
        """A dataset's ``declared_batch`` with the plan's arguments bound, to call with a batch size; or None.

        Raises:
            ComponentError: if the component cannot be found, loaded or used from a config.
        """
        declare = getattr(self._loaded_for(plan).component, "declared_batch", None)
        if declare is None:
            return None
        return lambda size: declare(size, **plan.arguments)

    def provenance(self, plan: ComponentPlan) -> tuple[Provenance, ...]:
        """Where a component and those nested in it come from.

        Raises:
            ComponentError: if one of them cannot be found.
        """
        from pipeline.registry.nested import nested_plans

        own = provenance_of(plan, self._claim_for(plan), self._files)
        inner = (replace(part, key=f"{plan.key}.{part.key}") for part in nested_plans(plan.arguments))
        return (own, *(record for part in inner for record in self.provenance(part)))

    def listing(self, kind: Kind | None = None, *, load: bool = False) -> list[Listing]:
        """All components, by kind and name, from metadata alone.

        Args:
            load: import each one too, so that every problem shows; else only those that show
                without running anything: a missing module, a syntax error.
        """
        order = list(Kind)
        claims = sorted(self._catalog.claims(kind), key=lambda c: (order.index(c.kind), c.name, c.scope))
        return [self._listing(claim, load=load) for claim in claims]

    def _listing(self, claim: Claim, *, load: bool) -> Listing:
        source = claim.source
        clash = self._catalog.clashes(claim)
        problem = visible_problem(source) if isinstance(source, Entry) else None
        if load:
            found = self._load(claim)
            problem = found.message if isinstance(found, Fault) else found.schema.refusal
        return listing_of(claim, clash=clash, problem=problem)

    def json_schemas(self, engine: Mapping[Kind, Mapping[str, Any]]) -> list[ComponentJson]:
        """Every component that a config can name, for an editor; each is imported, broken ones left out.

        Args:
            engine: by kind, the schemas of the engine's own keys.
        """
        from pipeline.registry.describing import describe
        from pipeline.registry.json_schema import component_json

        found = []
        for claim in sorted(self._catalog.claims(None), key=lambda c: (c.kind, c.name, c.scope)):
            loaded = self._load(claim)
            if isinstance(loaded, _Loaded) and not loaded.schema.refusal:
                description = describe(self._listing(claim, load=False), loaded.component, loaded.schema)
                found.append(component_json(description, loaded.schema, engine[claim.kind]))
        return found

    def describe(self, kind: Kind, type_name: str) -> Description:
        """One component in full: its parameters, its documentation and a table to paste.

        A broken one is described too, with its problem.

        Raises:
            ComponentError: if the name is unknown, or several claim it.
        """
        from pipeline.registry.describing import Description, describe

        claim = self._catalog.find(kind, type_name)
        if isinstance(claim, Fault):
            raise ComponentError(_fault_text(claim))
        listing = self._listing(claim, load=False)
        found = self._load(claim)
        if isinstance(found, Fault):
            return Description(listing, problem=f"{found.message}\n{found.detail}".rstrip())
        return describe(listing, found.component, found.schema)

    def _find(self, kind: Kind, type_name: str) -> _Loaded | Fault:
        claim = self._catalog.find(kind, type_name)
        return claim if isinstance(claim, Fault) else self._load(claim)

    def _load(self, claim: Claim) -> _Loaded | Fault:
        """Import a claim's component, once; a broken package is not run a second time."""
        from pipeline.registry.schema import schema_of  # imports pydantic, which the list can do without

        if claim.source not in self._loaded:
            source = claim.source
            component = load_entry(source) if isinstance(source, Entry) else source.component
            self._loaded[source] = (
                component
                if isinstance(component, Fault)
                else _Loaded(claim, component, schema_of(claim.kind, component))
            )
        return self._loaded[claim.source]

    def _claim_for(self, plan: ComponentPlan) -> Claim:
        claim = self._catalog.find(plan.kind, plan.type)
        if isinstance(claim, Fault):
            raise ComponentError(f"{plan.key}: {_fault_text(claim)}")
        return claim

    def _loaded_for(self, plan: ComponentPlan) -> _Loaded:
        found = self._load(self._claim_for(plan))
        if isinstance(found, Fault):
            raise ComponentError(f"{plan.key}: {_fault_text(found)}")
        if found.schema.refusal:
            raise ComponentError(f"{plan.key}: {plan.kind} {plan.type!r}: {found.schema.refusal}")
        return found


def _fault_text(fault: Fault) -> str:
    """A fault as an error's message, where no config gives it a place."""
    text = fault.message
    if fault.expected:
        text += f"; expected {fault.expected}"
    if fault.nearest:
        text += f"; did you mean {fault.nearest!r}?"
    return f"{text}\n{fault.detail}" if fault.detail else text
