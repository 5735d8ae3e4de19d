"""From bound factories to a training ready to run: everything is built here, in one order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from pipeline.api.metric import Metric
from pipeline.api.order import Order
from pipeline.api.seeds import derive_seed
from pipeline.engine import random_state
from pipeline.engine.buffers import share_buffers
from pipeline.engine.dealing import Dealing
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.fetch import Fetcher
from pipeline.engine.group import Group
from pipeline.engine.hook_bus import BoundHook
from pipeline.engine.optimizer import build_optimizer
from pipeline.engine.orders import as_order
from pipeline.engine.position import Position
from pipeline.engine.reader import NaturalOrder, Reader
from pipeline.engine.reduction import require_reductions
from pipeline.engine.schedule import Schedule
from pipeline.engine.step_module import StepModule, wrap
from pipeline.engine.update import Scaler
from pipeline.engine.weights import freeze, start_from
from pipeline.engine.world import World
from pipeline.errors import ComponentError, RunError


@dataclass
class Assembly:
    """The built parts of a run."""

    experiment: Experiment
    model: nn.Module
    step_module: StepModule
    module: nn.Module
    """The step module as the loop calls it: in DDP where there are several ranks."""
    optimizer: Optimizer
    schedule: Schedule
    scaler: Scaler | None
    train_reader: Reader
    eval_readers: Mapping[str, Reader]
    metrics: Mapping[str, Metric]
    hooks: tuple[BoundHook, ...]
    total_steps: int

    @property
    def steps_per_epoch(self) -> int:
        return self.train_reader.dealing.steps

    def close(self) -> None:
        """End the readers' workers."""
        for reader in (self.train_reader, *self.eval_readers.values()):
            reader.close()


class Builder:
    """Builds parts one by one, each under a seed of its own, so that none's draws move another's."""

    def __init__(self, seed: int, position: Position) -> None:
        self._seed = seed
        self._position = position

    def build(self, part: Part, *arguments: Any, **by_name: Any) -> Any:
        """Build a part; its key is the phase that a failure is reported in."""
        self._position.set_phase(part.key)
        random_state.seed_all(self._seed, "build", part.key)
        return part.build(*arguments, **by_name)


def assemble(
    experiment: Experiment, world: World, group: Group, position: Position, say: Callable[[str], None]
) -> Assembly:
    """Build everything, datasets first, since a missing file is the likeliest fault.

    Raises:
        ComponentError, RunError, CheckpointError: where parts do not fit together; and whatever a
            component's own constructor raises.
    """
    builder = Builder(experiment.seed, position)
    train = experiment.train
    datasets = {name: _build_dataset(builder, part) for name, part in experiment.datasets.items()}
    # The seed itself: the default order is that of EpochSampler(seed=seed), and `torch`'s that of torch.
    sampler = builder.build(experiment.sampler, datasets["train"], seed=experiment.seed)
    order = as_order(sampler, group, derive_seed(experiment.seed, "sampler"), experiment.sampler)
    position.set_phase("dealing the samples")
    dealing = _train_dealing(experiment, order)
    total_steps = train.steps or (train.epochs or 0) * dealing.steps

    model = builder.build(experiment.model)
    if experiment.weights is not None:
        left = start_from(model, experiment.weights)
        if left:
            say(f"model.weights: left as initialised: {', '.join(left)}")
    freeze(model, experiment.freeze)
    if train.sync_batchnorm:
        model = _sync_batchnorm(model, world)
    step_module = build_step_module(builder, experiment, model, world)
    if not any(parameter.requires_grad for parameter in step_module.parameters()):
        position.set_phase(experiment.model.key)
        raise ComponentError(
            f"{experiment.model} has no parameter to train; expected at least one that model.freeze leaves"
        )
    position.set_phase("wrapping the model in DDP")
    module = wrap(step_module, world, train, experiment.distributed)
    share_buffers(step_module, group)

    position.set_phase(experiment.optimizer.key)
    optimizer = build_optimizer(builder.build, experiment, step_module)
    schedule = Schedule.build(
        builder.build, experiment, optimizer, total_steps=total_steps, steps_per_epoch=dealing.steps
    )
    readers = _readers(experiment, world, datasets, order, dealing)
    return Assembly(
        experiment=experiment,
        model=model,
        step_module=step_module,
        module=module,
        optimizer=optimizer,
        schedule=schedule,
        scaler=Scaler(world.device.type) if train.precision == "fp16" else None,
        train_reader=readers.pop("train"),
        eval_readers=readers,
        metrics={name: _build_metric(builder, part, world) for name, part in experiment.metrics.items()},
        hooks=tuple(
            BoundHook(name, hook, experiment.hook_ranks.get(name, hook.ranks))
            for name, hook in ((name, builder.build(part)) for name, part in experiment.hooks.items())
        ),
        total_steps=total_steps,
    )


def _build_dataset(builder: Builder, part: Part) -> Any:
    dataset = builder.build(part)
    check_dataset(dataset, part)
    return dataset


def check_dataset(dataset: Any, part: Part) -> None:
    """Refuse a dataset that cannot be dealt.

    Raises:
        ComponentError: if it has no length, no items, or none at all.
    """
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ComponentError(
            f"{part} is an iterable dataset, which this version cannot deal to the ranks exactly; "
            "give it __len__ and __getitem__"
        )
    if len(dataset) == 0:
        raise ComponentError(f"{part} is empty: it has length 0; expected at least one sample")


def _build_metric(builder: Builder, part: Part, world: World) -> Metric:
    """Refused now, and not after an epoch, where it cannot be joined over the ranks."""
    metric: Metric = builder.build(part)
    metric.reset(world.device)
    states = metric.states()
    require_reductions(list(states.values()), [f"{part.key}.{name}" for name in states], world.world_size)
    return metric


def _train_dealing(experiment: Experiment, order: Order) -> Dealing:
    batch, samples = experiment.train.global_batch_size, order.samples_per_epoch
    if samples < 1:
        raise ComponentError(f"{experiment.sampler} gives no samples in an epoch")
    dealing = Dealing(samples, batch, experiment.loader.drop_last)
    if dealing.steps == 0:
        raise RunError(
            f"train.global_batch_size = {batch} is larger than the {samples} samples of an epoch, and "
            "loader.drop_last leaves out the only batch; choose a smaller batch or drop_last = false"
        )
    return dealing


def build_step_module(builder: Builder, experiment: Experiment, model: nn.Module, world: World) -> StepModule:
    """The objective built and paired with the model, both on the device."""
    model.to(world.device)
    objective = builder.build(experiment.objective)
    if isinstance(objective, nn.Module):
        objective.to(world.device)
    return StepModule(model, objective, world.device, experiment.train.precision)


def _readers(
    experiment: Experiment, world: World, datasets: Mapping[str, Any], order: Order, dealing: Dealing
) -> dict[str, Reader]:
    return {
        name: build_reader(experiment, world, name, dataset, order, dealing)
        if name == "train"
        else evaluation_reader(experiment, world, name, dataset)
        for name, dataset in datasets.items()
    }


def evaluation_reader(experiment: Experiment, world: World, name: str, dataset: Any) -> Reader:
    """Reads this rank's shares of a dataset in its natural order, as an evaluation wants it."""
    batch = experiment.train.eval_batch_size or experiment.train.global_batch_size
    length = len(dataset)
    return build_reader(experiment, world, name, dataset, NaturalOrder(length), Dealing(length, batch))


def build_reader(
    experiment: Experiment, world: World, name: str, dataset: Any, order: Order, dealing: Dealing
) -> Reader:
    """Reads this rank's shares of a dataset in any order, with the seeds that its samples have in the run."""
    seed = derive_seed(experiment.seed, "samples", name)
    return Reader(
        Fetcher(dataset, seed=seed, sample_seeds=experiment.loader.sample_seeds),
        order,
        dealing,
        world,
        experiment.loader,
        max_microbatch_size=experiment.train.max_microbatch_size,
        worker_seed=derive_seed(seed, "workers", world.rank),
    )


def _sync_batchnorm(model: nn.Module, world: World) -> nn.Module:
    if world.device.type != "cuda":
        raise RunError(
            "train.sync_batchnorm = true needs CUDA: torch has no synchronised batch norm on the CPU"
        )
    if world.world_size == 1:
        return model
    converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    return converted


def metric_names(experiment: Experiment) -> tuple[str, ...]:
    """The names that an evaluation gives, known before any is run."""
    return tuple(
        f"{dataset}/{name}"
        for dataset in experiment.datasets
        if dataset != "train"
        for name in ("loss", *experiment.metrics)
    )
