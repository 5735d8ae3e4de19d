"""From a plan, which names components, to an experiment, which has them bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pipeline.api.hook import Ranks
from pipeline.config.plan import ComponentPlan, Plan
from pipeline.engine.experiment import Experiment, Part
from pipeline.registry.registry import Registry


def bind_experiment(plan: Plan, registry: Registry, seed: int) -> Experiment:
    """Bind every component of a plan.

    Raises:
        ComponentError: if one cannot be loaded.
    """

    def bind(component: ComponentPlan) -> Part:
        return Part(
            component.kind,
            component.key,
            component.type,
            str(component.place),
            registry.bind(component),
            registry.takes(component),
        )

    def bind_all(components: Mapping[str, ComponentPlan]) -> dict[str, Part]:
        return {name: bind(component) for name, component in components.items()}

    return Experiment(
        name=plan.name,
        seed=seed,
        model=bind(plan.model),
        weights=plan.weights,
        freeze=plan.freeze,
        datasets=bind_all(plan.datasets),
        objective=bind(plan.objective),
        optimizer=bind(plan.optimizer),
        groups=plan.groups,
        scheduler=bind(plan.scheduler) if plan.scheduler else None,
        scheduler_interval=plan.scheduler_interval,
        scheduler_monitor=plan.scheduler_monitor,
        sampler=bind(plan.sampler),
        metrics=bind_all(plan.metrics),
        hooks=bind_all(plan.hooks),
        hook_ranks=cast(Mapping[str, Ranks], plan.hook_ranks),
        train=plan.train,
        loader=plan.loader,
        distributed=plan.distributed,
    )
