"""Metrics: whether the states of two shares, joined, give the value of the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pipeline.api.metric import Metric, State
from pipeline.api.outcome import Outcome
from pipeline.cli.verification.attributes import attributes_of
from pipeline.cli.verification.probes import Trouble
from pipeline.engine.builder import Builder
from pipeline.engine.experiment import Part
from pipeline.engine.reduction import require_reductions
from pipeline.engine.world import World

_CLOSE = 1e-5


def trouble(builder: Builder, part: Part, shares: Sequence[Outcome], world: World) -> Trouble | None:
    """Say what is lost where a metric is computed from shares, or a second time.

    Raises:
        ComponentError: if a state has no known reduction; and whatever the metric raises.
    """
    states = _states(_updated(builder, part, world, shares))
    if not states:
        return Trouble("it declares no state, so several processes cannot join what they have seen")
    require_reductions([*states.values()], [*states], world_size=2)
    whole = _value([_states(_updated(builder, part, world, shares))], builder, part, world)
    metrics = [_updated(builder, part, world, [share]) for share in shares]
    joined = _value([_states(metric) for metric in metrics], builder, part, world)
    if not _close(whole, joined):
        return Trouble(
            f"its value is {whole:.6g}, and {joined:.6g} where its states are joined from two processes"
            f"{_undeclared(builder, part, shares, world)}"
        )
    used = _updated(builder, part, world, shares)
    used.reset(world.device)
    for share in shares:
        used.update(share)
    again = _computed(used, {name: state.value for name, state in _states(used).items()})
    if not _close(whole, again):
        return Trouble(
            f"its value is {whole:.6g}, and {again:.6g} in a second evaluation of the same"
            f"{_undeclared(builder, part, shares, world)}"
        )
    return None


def _updated(builder: Builder, part: Part, world: World, shares: Sequence[Outcome]) -> Metric:
    metric: Metric = builder.build(part)
    metric.reset(world.device)
    for share in shares:
        metric.update(share)
    return metric


def _states(metric: Metric) -> dict[str, State]:
    return {name: State(state.value.clone(), state.reduce) for name, state in metric.states().items()}


def _value(ranks: Sequence[Mapping[str, State]], builder: Builder, part: Part, world: World) -> float:
    """The value that a rank which saw no sample computes from the joined states."""
    metric: Metric = builder.build(part)
    metric.reset(world.device)
    joined = {name: _join([states[name] for states in ranks]) for name in ranks[0]}
    return _computed(metric, joined)


def _computed(metric: Metric, states: Mapping[str, Tensor]) -> float:
    metric.load_states(states)
    return float(metric.compute())


def _join(states: Sequence[State]) -> Tensor:
    values = [state.value for state in states]
    if states[0].reduce == "cat":
        return torch.cat(values)
    if len(values) == 1:
        return values[0]
    stacked = torch.stack(values)
    return {"max": stacked.amax, "min": stacked.amin}.get(str(states[0].reduce), stacked.sum)(dim=0)


def _undeclared(builder: Builder, part: Part, shares: Sequence[Outcome], world: World) -> str:
    """What update changes beside the declared states, in words."""
    metric: Metric = builder.build(part)
    metric.reset(world.device)
    before, declared = attributes_of(metric), set(metric.states())
    for share in shares:
        metric.update(share)
    changed = [
        path
        for path, text in attributes_of(metric).items()
        if before.get(path) != text and path not in declared
    ]
    return f": update changes the attribute {changed[0]}, which add_state does not declare" if changed else ""


def _close(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=_CLOSE, abs_tol=1e-9) or (math.isnan(one) and math.isnan(two))
