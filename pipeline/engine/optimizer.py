"""The optimizer over the parameters in training, in groups by pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from pipeline.engine.experiment import Experiment
from pipeline.engine.step_module import StepModule
from pipeline.engine.weights import matching


def build_optimizer(build: Callable[..., Any], experiment: Experiment, step_module: StepModule) -> Optimizer:
    """Build the optimizer: one group, or those of [[optimizer.groups]] and the rest.

    A parameter belongs to the first group that matches it. The model's parameters go by their own
    names, an objective's by ``objective.NAME``.

    Raises:
        ComponentError: if a group's pattern matches no parameter.
    """
    named = _trainable(step_module)
    if not experiment.groups:
        optimizer: Optimizer = build(experiment.optimizer, list(named.values()))
        return optimizer
    rest = dict(named)
    groups: list[dict[str, Any]] = []
    for group in experiment.groups:
        names = {name for glob in group.params for name in matching(glob, named, "optimizer.groups")}
        groups.append({"params": [rest.pop(name) for name in named if name in names & rest.keys()]})
        groups[-1].update(group.options)
    groups.append({"params": list(rest.values())})
    grouped: Optimizer = build(experiment.optimizer, [group for group in groups if group["params"]])
    return grouped


def _trainable(step_module: StepModule) -> dict[str, nn.Parameter]:
    """Parameters in training by name, each once, the model's first."""
    named = {
        name: parameter for name, parameter in step_module.model.named_parameters() if parameter.requires_grad
    }
    if isinstance(step_module.objective, nn.Module):
        seen = {id(parameter) for parameter in named.values()}
        named |= {
            f"objective.{name}": parameter
            for name, parameter in step_module.objective.named_parameters()
            if parameter.requires_grad and id(parameter) not in seen
        }
    return named
