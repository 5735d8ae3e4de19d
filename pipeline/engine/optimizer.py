"""The optimizer over the parameters in training, in groups by pattern."""

from __future__ import annotations

from collections.abc import Callable, Collection
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


def load_optimizer(optimizer: Optimizer, state: dict[str, Any], changed: Collection[str]) -> None:
    """Load an optimizer's state, but keep the options that the config has changed since.

    A learning rate that a scheduler moves keeps its place on the curve, which is scaled.

    Raises:
        ValueError, KeyError: if the state belongs to other parameters.
    """
    fresh = [dict(group) for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    options = {key.partition(".")[2] for key in changed if key.startswith("optimizer.")}
    for group, new in zip(optimizer.param_groups, fresh, strict=True):
        for option in options & (new.keys() - {"params"}):
            if option == "lr" and group.get("initial_lr"):
                group["lr"] *= new["initial_lr"] / group["initial_lr"]
                group["initial_lr"] = new["initial_lr"]
            else:
                group[option] = new[option]
