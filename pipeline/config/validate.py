"""From layers to a validated config, with every problem of it at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pipeline.api.settings import DistributedSettings, LoaderSettings, TrainSettings
from pipeline.config.canonical import canonical_tree
from pipeline.config.config import Config
from pipeline.config.draft import Draft
from pipeline.config.engine_keys import EngineKeys, check_engine_keys
from pipeline.config.environment import check_reading_environment
from pipeline.config.hiding import hidden_texts, masked_words
from pipeline.config.interpolation import Resolver, interpolate
from pipeline.config.keys import KeyPath, dotted
from pipeline.config.layers import Layers
from pipeline.config.merge import Merged, merge
from pipeline.config.outline import SETTINGS
from pipeline.config.overrides import Override
from pipeline.config.parts import Part, check_parts, named
from pipeline.config.plan import CheckedTable, ComponentPlan, Fault, Plan, SchemaSource
from pipeline.config.report import Report
from pipeline.config.retype import drop_stale_arguments
from pipeline.config.rules import (
    check_evaluation,
    check_length,
    check_metrics,
    check_monitors,
    check_top_level,
    unknown_setting,
)
from pipeline.config.sections import check_settings
from pipeline.config.top_level import Top, check_top


def load(
    layers: Layers, schemas: SchemaSource, *, name: str | None = None, unimported: Sequence[Fault] = ()
) -> Config:
    """Validate a config.

    Args:
        layers: what ``layers.read`` gave; the local components that it names must be registered.
        schemas: what knows the components.
        name: the run's name, instead of the config's own.
        unimported: what is wrong with local files; a fault's path is the index in ``layers.components``.

    Raises:
        ConfigError: with all problems, in the files' order, those of the command line last.
    """
    report = Report.of(layers.findings)
    for fault in unimported:
        place = layers.component_places[int(fault.path[0])]
        report.add(place, "components", fault.message, expected=fault.expected, detail=fault.detail)
    draft, warnings = _draft(layers, schemas, report)
    check_top_level(draft)
    top = check_top(draft, layers, name)
    parts = check_parts(draft)
    engine = check_engine_keys(draft, parts)
    check_length(draft)
    settings = {section: _settings(draft, section) for section in SETTINGS}
    check_evaluation(draft, parts, settings["train"].arguments)
    check_metrics(draft, parts)
    check_monitors(draft, parts, settings["train"].arguments)
    report.raise_if_any(layers.chains)
    tree = canonical_tree(draft, parts, engine, settings, top.written)
    secrets = frozenset[KeyPath]().union(*(part.secrets for part in parts.values()))
    return Config(
        path=layers.path,
        plan=_plan(top, parts, engine, settings),
        tree=tree,
        sources=layers.sources,
        overrides=_as_typed(layers.overrides, secrets),
        warnings=(*warnings, *draft.warnings),
        places={dotted(path): origin.place for path, origin in draft.merged.origins.items() if path},
        left_out=frozenset().union(*(part.paths for part in parts.values()), secrets),
        secrets=secrets,
        hidden=hidden_texts(draft, parts, tree, layers),
    )


def _draft(layers: Layers, schemas: SchemaSource, report: Report) -> tuple[Draft, tuple[str, ...]]:
    """Merge, settle changed types, interpolate."""
    merged = merge(layers, report)

    def complain(path: KeyPath, message: str, expected: str, nearest: str) -> None:
        place = merged.origin(path).place
        report.add(place, dotted(path), message, expected=expected, nearest=nearest)

    tree, warnings = drop_stale_arguments(merged, schemas, _types(merged))
    interpolated = interpolate(tree, complain)
    broken = interpolated.broken | layers.broken
    lacks_names = any(finding.problem.key == "components" for finding in report.findings)
    return Draft(merged, tree, interpolated, broken, schemas, report, lacks_names), warnings


def _types(merged: Merged) -> Callable[[KeyPath, str], str | None]:
    """Reads a ``type`` that may be an interpolation; a problem with it is left to the main pass."""
    resolver = Resolver(merged.tree, lambda *_: None)

    def type_of(path: KeyPath, written: str) -> str | None:
        value = resolver.resolve((*path, "type")) if "${" in written else written
        return value if isinstance(value, str) else None

    return type_of


def _settings(draft: Draft, section: str) -> CheckedTable:
    table = draft.table((section,))
    if table is None and (section in draft.tree or section == "train"):
        return CheckedTable({}, {})
    checked = check_reading_environment(
        draft, (section,), table or {}, lambda given: check_settings(section, given)
    )
    for fault in checked.faults:
        draft.complain_of_fault((section,), unknown_setting(draft, section, fault))
    return checked


def _plan(
    top: Top, parts: Mapping[KeyPath, Part], engine: EngineKeys, settings: Mapping[str, CheckedTable]
) -> Plan:
    def members(section: str) -> dict[str, ComponentPlan]:
        return {name: part.plan for name, part in named(parts, section)}

    scheduler = parts.get(("scheduler",))
    return Plan(
        name=top.name,
        seed=top.seed,
        model=parts["model",].plan,
        weights=engine.weights,
        freeze=engine.freeze,
        datasets=members("dataset"),
        objective=parts["objective",].plan,
        optimizer=parts["optimizer",].plan,
        groups=engine.groups,
        scheduler=scheduler.plan if scheduler else None,
        scheduler_interval=engine.interval,
        scheduler_monitor=engine.monitor,
        sampler=parts["sampler",].plan,
        metrics=members("metrics"),
        hooks=members("hooks"),
        hook_ranks=engine.ranks,
        train=TrainSettings(**settings["train"].arguments),
        loader=LoaderSettings(**settings["loader"].arguments),
        distributed=DistributedSettings(**settings["distributed"].arguments),
        components=top.components,
    )


def _as_typed(overrides: tuple[Override, ...], secrets: Collection[KeyPath]) -> tuple[str, ...]:
    """The overrides as text; one that sets a secret, or a table around it, without its value."""
    texts = masked_words([override.text for override in overrides], secrets, {})
    return tuple(f"{override.option} {text}" for override, text in zip(overrides, texts, strict=True))
