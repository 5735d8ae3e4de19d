"""The model and the objective, built and paired."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from pipeline.engine.builder import Builder
from pipeline.engine.experiment import Experiment
from pipeline.engine.step_module import StepModule
from pipeline.engine.sync_batchnorm import synchronised
from pipeline.engine.weights import freeze, start_from
from pipeline.engine.world import World
from pipeline.errors import ComponentError


def build_modules(
    builder: Builder, experiment: Experiment, world: World, say: Callable[[str], None]
) -> StepModule:
    """Build the model with its first weights and its frozen parameters, and the objective.

    Raises:
        CheckpointError: if the first weights do not fit.
        ComponentError, RunError: if nothing is left to train, or it cannot be trained here.
    """
    model = builder.build(experiment.model)
    if experiment.weights is not None:
        left = start_from(model, experiment.weights)
        if left:
            say(f"model.weights: left as initialised: {', '.join(left)}")
    freeze(model, experiment.freeze)
    if experiment.train.sync_batchnorm:
        model = synchronised(model, world)
    step_module = pair(builder, experiment, model, world)
    builder.at_work(experiment.model.key)
    if not any(parameter.requires_grad for parameter in step_module.parameters()):
        raise ComponentError(
            f"{experiment.model} has no parameter to train; expected at least one that model.freeze leaves"
        )
    return step_module


def pair(builder: Builder, experiment: Experiment, model: nn.Module, world: World) -> StepModule:
    """The objective built and paired with the model, both on the device."""
    model.to(world.device)
    objective = builder.build(experiment.objective)
    if isinstance(objective, nn.Module):
        objective.to(world.device)
    return StepModule(model, objective, world.device, experiment.train.precision)
