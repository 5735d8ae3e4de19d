"""From bound factories to a training ready to run: everything is built here, in one order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from torch import nn
from torch.optim import Optimizer

from pipeline.api.hook import Ranks
from pipeline.api.metric import Metric
from pipeline.engine.buffers import share_buffers
from pipeline.engine.builder import Builder
from pipeline.engine.data import Data, build_data
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.group import Group
from pipeline.engine.hook_bus import BoundHook
from pipeline.engine.modules import build_modules
from pipeline.engine.optimizer import build_optimizer
from pipeline.engine.position import Position
from pipeline.engine.reduction import require_reductions
from pipeline.engine.same_build import require_same_build
from pipeline.engine.schedule import Schedule
from pipeline.engine.share import Saved
from pipeline.engine.step_module import StepModule, wrap
from pipeline.engine.update import Scaler
from pipeline.engine.world import World
from pipeline.errors import ComponentError


@dataclass(frozen=True)
class Assembly:
    """The built parts of a run."""

    experiment: Experiment
    data: Data
    step_module: StepModule
    module: nn.Module
    """The step module as the loop calls it: in DDP where there are several ranks."""
    optimizer: Optimizer
    schedule: Schedule
    scaler: Scaler | None
    metrics: Mapping[str, Metric]
    hooks: tuple[BoundHook, ...]

    @property
    def model(self) -> nn.Module:
        """The bare model."""
        return self.step_module.model

    @property
    def steps_per_epoch(self) -> int | None:
        """Optimizer steps of an epoch; None where only reading it tells."""
        return self.data.train.steps


def assemble(
    experiment: Experiment,
    world: World,
    group: Group,
    position: Position,
    say: Callable[[str], None],
    built: Callable[[], None],
    saved: Saved | None,
) -> Assembly:
    """Build everything, datasets first, since a missing file is the likeliest fault.

    The position is brought to that of a resumed run with them: what is built later is told how long it is.

    Args:
        built: called when all components are built, before the first collective; waits for all ranks.
        saved: where the run that is resumed stands.

    Raises:
        ComponentError, RunError, CheckpointError: where parts do not fit together; and whatever a
            component's own constructor raises.
    """
    builder = Builder(experiment.seed, position)
    data = build_data(builder, experiment, world, group)
    if saved is not None:
        position.set_phase("restoring a checkpoint")
        position.load_state_dict(saved.position)
        data.train.resume(position, saved, say)
    step_module = build_modules(builder, experiment, world, say)
    metrics = {name: _build_metric(builder, part, world) for name, part in experiment.metrics.items()}
    hooks = [_build_hook(builder, experiment, name) for name in experiment.hooks]
    position.set_phase("waiting for the other ranks to build their components")
    built()
    require_same_build(step_module, data, group, position.set_phase)
    position.set_phase("wrapping the model in DDP")
    module = wrap(step_module, world, experiment.train, experiment.distributed)
    share_buffers(step_module, group)
    position.set_phase(experiment.optimizer.key)
    optimizer = build_optimizer(builder.build, experiment, step_module)
    steps_per_epoch = data.train.steps
    total_steps = position.total_steps(experiment.train, steps_per_epoch)
    return Assembly(
        experiment=experiment,
        data=data,
        step_module=step_module,
        module=module,
        optimizer=optimizer,
        schedule=Schedule.build(
            builder.build, experiment, optimizer, total_steps=total_steps, steps_per_epoch=steps_per_epoch
        ),
        scaler=Scaler(world.device.type) if experiment.train.precision == "fp16" else None,
        metrics=metrics,
        hooks=tuple(hooks),
    )


def _build_metric(builder: Builder, part: Part, world: World) -> Metric:
    """Refused now, and not after an epoch, where it cannot be joined over the ranks."""
    metric: Metric = builder.build(part)
    metric.reset(world.device)
    states = metric.states()
    if not states and world.world_size > 1:
        raise ComponentError(
            f"{part} declares no state, so it cannot be computed over {world.world_size} ranks; declare what "
            "update changes with add_state, or run with one process"
        )
    require_reductions(list(states.values()), [f"{part.key}.{name}" for name in states], world.world_size)
    return metric


def _build_hook(builder: Builder, experiment: Experiment, name: str) -> BoundHook:
    hook = builder.build(experiment.hooks[name])
    ranks = experiment.hook_ranks.get(name, hook.ranks)
    if ranks not in get_args(Ranks):
        raise ComponentError(
            f"hooks.{name}: ranks is {ranks!r}; expected one of {', '.join(get_args(Ranks))}"
        )
    return BoundHook(name, hook, ranks)
