"""A training step by shapes alone: every component built and called as in a run, nothing computed.

Datasets are built for real, or declare their shapes; all else lives in a ShapeMode. What fails here
would fail in the run. What cannot be told without data is said to be unchecked.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pipeline.api.metric import Metric
from pipeline.engine import random_state
from pipeline.engine.builder import Builder
from pipeline.engine.dealing import Dealing, cut_evenly, share_size
from pipeline.engine.evaluate import evaluating
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.group import Alone
from pipeline.engine.influence import Seen, batch_norms, draws, in_batch
from pipeline.engine.mismatch import Findings, Unchecked
from pipeline.engine.optimizer import build_optimizer
from pipeline.engine.orders import as_order
from pipeline.engine.position import Position
from pipeline.engine.reduction import require_reductions
from pipeline.engine.rehearsed_step import Memory, RehearsedStep
from pipeline.engine.samples import Declaration, Samples, open_samples
from pipeline.engine.schedule import Schedule
from pipeline.engine.shapes import Observer, Operation, ShapeMode
from pipeline.engine.step_module import StepModule
from pipeline.engine.trail import Trail
from pipeline.engine.weights import freeze
from pipeline.engine.world import World
from pipeline.errors import ComponentError, Problem


@dataclass(frozen=True)
class Rehearsal:
    """What a step by shapes has told; None where something before it could not be checked."""

    problems: tuple[Problem, ...]
    """What would fail in the run."""
    unchecked: tuple[Unchecked, ...]
    parameters: int | None = None
    trained: int | None = None
    """Parameters that are not frozen."""
    memory: Memory | None = None
    """Of one rank."""
    samples: Mapping[str, int] = field(default_factory=dict)
    """The length of each dataset."""
    steps_per_epoch: int | None = None
    last_batch: int | None = None
    """Samples of an epoch's last global batch, over all ranks."""
    total_steps: int | None = None
    checkpoint: int | None = None
    """Bytes of one checkpoint, without what hooks keep in it."""
    unused: tuple[str, ...] = ()
    """Parameters in training that the loss of the batch does not depend on."""
    limits: tuple[str, ...] = ()
    """Why the result may depend on the number of ranks."""


def rehearse(
    experiment: Experiment, world_size: int, declarations: Mapping[str, Declaration] | None = None
) -> Rehearsal:
    """Take one batch through model, objective, optimizer and metrics by shapes alone.

    Args:
        declarations: by name, of the datasets that declare their shapes and are not to be built.
    """
    plain = replace(experiment.train, sync_batchnorm=False)  # which needs CUDA, and changes no shape
    with random_state.preserved():
        return _Rehearsing(
            replace(experiment, train=plain, weights=None), world_size, declarations or {}
        ).run(sync_batchnorm=experiment.train.sync_batchnorm, weights=experiment.weights is not None)


class _Rehearsing:
    def __init__(
        self, experiment: Experiment, world_size: int, declarations: Mapping[str, Declaration]
    ) -> None:
        self.experiment = experiment
        self.declarations = declarations
        self.world = World(0, 0, world_size, world_size, torch.device("cpu"), socket.gethostname())
        self.builder = Builder(experiment.seed, Position())
        self.mode = ShapeMode()
        self.trail = Trail()
        self.findings = Findings(experiment, self.trail)

    def run(self, *, sync_batchnorm: bool, weights: bool) -> Rehearsal:
        if weights:
            self.findings.leave("model.weights", "the file is read when the run starts")
        samples = {name: self._samples(name) for name in self.experiment.datasets}
        step_module = self._modules()
        dealing = self._dealing(samples["train"])
        steps = dealing.steps if dealing else None
        streams = samples["train"] is not None and samples["train"].source is None
        total = self.experiment.train.total_steps(steps) if steps or streams else None
        memory: Memory | None = None
        unused: tuple[str, ...] = ()
        limits: tuple[str, ...] = ()
        if step_module is not None:
            step = self._step(step_module, samples["train"], dealing)
            memory, unused = step.memory, step.unused
            if steps or streams:
                self._schedule(step, steps, total)
            limits = self._limits(step_module, step, samples["train"], sync_batchnorm=sync_batchnorm)
            if not step.batch_size and not self.findings.problems:
                self.findings.leave("model", "no batch went through it, nor through objective and optimizer")
            if not step.failed:  # else evaluations would fail likewise
                self._evaluations(step_module, samples)
        self._refuse_unused(unused)
        return Rehearsal(
            tuple(self.findings.problems),
            tuple(self.findings.unchecked),
            parameters=_count(step_module, trained=False),
            trained=_count(step_module, trained=True),
            memory=memory,
            samples={
                name: len(one.source) for name, one in samples.items() if one and one.source is not None
            },
            steps_per_epoch=steps,
            last_batch=len(dealing.window(steps - 1)) if dealing and steps else None,
            total_steps=total,
            checkpoint=_checkpoint(step_module, memory),
            unused=unused,
            limits=limits,
        )

    def _samples(self, name: str) -> Samples | None:
        part = self.experiment.datasets[name]
        try:
            declaration = self.declarations.get(name)
            return open_samples(self.builder, self.experiment, name, declaration, self.world.world_size)
        except OSError as error:  # the file may be where the run will be
            self.findings.leave(part.key, f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 -- a component may raise anything
            self.findings.note(part, "cannot be built", error)
        return None

    def _modules(self) -> StepModule | None:
        """Model and objective, built where they stay: nothing moves them to a device."""
        experiment = self.experiment
        with self.mode.on(), self._attempt(experiment.model, "cannot be built"):
            model = self.builder.build(experiment.model)
            freeze(model, experiment.freeze)
            with self._attempt(experiment.objective, "cannot be built"):
                objective = self.builder.build(experiment.objective)
                module = StepModule(model, objective, self.world.device, experiment.train.precision)
                if any(parameter.requires_grad for parameter in module.parameters()):
                    return module
                expected = "at least one that model.freeze leaves"
                self.findings.refuse(experiment.model, "it has no parameter to train", expected)
        return None

    def _dealing(self, train: Samples | None) -> Dealing | None:
        """How an epoch is dealt; None where that is not known."""
        if train is None or train.source is None:
            return None
        experiment, part = self.experiment, self.experiment.sampler
        with self._attempt(part, "cannot be built"):
            sampler = self.builder.build(part, train.source, seed=experiment.seed)
            order = as_order(sampler, Alone(), experiment.seed, part)
            size = experiment.train.global_batch_size
            dealing = Dealing(order.samples_per_epoch, size, experiment.loader.drop_last)
            if dealing.steps:
                return dealing
            raise ComponentError(
                f"an epoch of {order.samples_per_epoch} samples has no batch of train.global_batch_size = "
                f"{size}; choose a smaller batch, or loader.drop_last = false"
            )
        return None

    def _step(self, step_module: StepModule, train: Samples | None, dealing: Dealing | None) -> RehearsedStep:
        """A step on rank 0's first share; without a batch, only what can be told of the weights."""
        step = RehearsedStep(self.experiment, self.world.world_size, self.mode, self.trail, self.findings)
        with self._attempt(self.experiment.optimizer, "cannot be built"), self.mode.on():
            step.optimizer = build_optimizer(self.builder.build, self.experiment, step_module)
        window = len(dealing.window(0)) if dealing else 0
        if train is not None and train.source is None:
            window = self.experiment.train.global_batch_size
        batches = self._batches("train", train, self._sizes(window)) if window else []
        step.take(step_module, batches)
        gc.collect()
        return step

    def _sizes(self, window: int) -> tuple[int, ...]:
        """The microbatches of rank 0's share of a global batch."""
        share = share_size(window, 0, self.world.world_size)
        return cut_evenly(share, self.experiment.train.max_microbatch_size or share)

    def _batches(self, name: str, samples: Samples | None, sizes: tuple[int, ...]) -> list[Any]:
        """Batches without data; empty where they cannot be read."""
        part = self.experiment.datasets[name]
        if samples is None:
            return []
        with self._attempt(part, "gives no batch"):
            return [self.mode.of(samples.batch(size)) for size in sizes[:2]]
        return []

    def _schedule(self, step: RehearsedStep, steps: int | None, total: int | None) -> None:
        if step.optimizer is None or self.experiment.scheduler is None:
            return
        with self._attempt(self.experiment.scheduler, "cannot be built"), self.mode.on():
            Schedule.build(
                self.builder.build, self.experiment, step.optimizer, total_steps=total, steps_per_epoch=steps
            )

    def _limits(
        self, step_module: StepModule, step: RehearsedStep, train: Samples | None, *, sync_batchnorm: bool
    ) -> tuple[str, ...]:
        limits = [] if sync_batchnorm else list(batch_norms(step_module.model, "model"))
        size = step.batch_size
        if size and train is not None:
            other = size - 1 if size > 2 else size + 1
            passes = [
                self._forward(step_module, batch) for batch in self._batches("train", train, (size, other))
            ]
            if len(passes) == 2 and passes[0] and passes[1]:
                limits += [*draws(passes[0]), *in_batch(*passes)]
        return tuple(limits)

    def _forward(self, step_module: StepModule, batch: Any) -> list[Seen]:
        """The operations of a forward pass in training; empty where it fails, as with another size it may."""
        seen: list[Seen] = []

        def note(operation: Operation) -> None:
            seen.append(Seen.of(operation, self.trail.path))

        try:
            with self.mode.on(), self.trail.following(step_module.model), Observer(note):
                step_module.outcome(batch)
        except Exception as error:  # noqa: BLE001 -- a component may raise anything
            self.findings.leave("model", f"what a sample sees of others is not known: {type(error).__name__}")
            return []
        return seen

    def _evaluations(self, step_module: StepModule, samples: Mapping[str, Samples | None]) -> None:
        names = [name for name in samples if name != "train"]
        metrics = (
            {name: self._metric(part) for name, part in self.experiment.metrics.items()} if names else {}
        )
        train = self.experiment.train
        for name in names:
            source = samples[name]
            if source is None:
                continue
            window = train.eval_batch_size or train.global_batch_size
            if source.source is not None:
                window = min(window, len(source.source))
            for batch in self._batches(name, source, self._sizes(window)[:1]):
                self._evaluate(step_module, name, batch, metrics)

    def _metric(self, part: Part) -> Metric | None:
        with self._attempt(part, "cannot be built"), self.mode.on():
            metric: Metric = self.builder.build(part)
            metric.reset(self.world.device)
            states = metric.states()
            names = [f"{part.key}.{name}" for name in states]
            require_reductions(list(states.values()), names, self.world.world_size)
            return metric
        return None

    def _evaluate(
        self, step_module: StepModule, name: str, batch: Any, metrics: Mapping[str, Metric | None]
    ) -> None:
        with self.mode.on(), torch.no_grad(), evaluating(step_module):
            try:
                with self.trail.following(step_module.model):
                    outcome = step_module.outcome(batch)
            except Exception as error:  # noqa: BLE001 -- a component may raise anything
                self.findings.note_forward(self.experiment.datasets[name], batch, error)
                return
            for key, metric in metrics.items():
                if metric is not None:
                    try:
                        metric.update(outcome)
                        metric.states()
                    except Exception as error:  # noqa: BLE001 -- a component may raise anything
                        self.findings.note_metric(self.experiment.metrics[key], outcome, error)

    def _refuse_unused(self, unused: tuple[str, ...]) -> None:
        distributed = self.experiment.distributed
        allowed = distributed.find_unused_parameters or distributed.static_graph
        if unused and self.world.world_size > 1 and not allowed:
            self.findings.refuse(
                self.experiment.model,
                f"the loss does not depend on {', '.join(unused)}, whose gradients cannot be joined over the "
                "ranks",
                "every parameter in use, named in model.freeze, or distributed.find_unused_parameters = true",
            )

    @contextmanager
    def _attempt(self, part: Part, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 -- a component may raise anything
            self.findings.note(part, what, error)


def _count(step_module: StepModule | None, *, trained: bool) -> int | None:
    if step_module is None:
        return None
    return sum(int(p.numel()) for p in step_module.parameters() if p.requires_grad or not trained)


def _checkpoint(step_module: StepModule | None, memory: Memory | None) -> int | None:
    """Weights under every name that they have, as safetensors wants them, and the optimizer's state."""
    if step_module is None or memory is None or memory.optimizer is None:
        return None
    weights = sum(tensor.nbytes for tensor in step_module.model.state_dict().values())
    return int(weights) + memory.optimizer
