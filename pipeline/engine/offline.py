"""A checkpoint at work outside training: measured on the evaluation datasets, or asked for its outputs.

Only what is needed is built: no optimizer, no hooks, no order of training, no dataset that is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.engine import random_state
from pipeline.engine.builder import Builder
from pipeline.engine.checkpoint import Checkpoint, restore_modules
from pipeline.engine.data import build_dataset, build_reader, evaluation_reader, is_stream
from pipeline.engine.dealing import Dealing
from pipeline.engine.evaluate import Evaluator, evaluating
from pipeline.engine.experiment import Experiment
from pipeline.engine.group import Group
from pipeline.engine.modules import pair
from pipeline.engine.position import Position
from pipeline.engine.predictions import Batch, Predictions, batch_of, joined
from pipeline.engine.step_module import StepModule, to_device
from pipeline.engine.world import World
from pipeline.errors import ComponentError


@dataclass(frozen=True)
class Bench:
    """A checkpoint of an experiment, on these ranks."""

    experiment: Experiment
    checkpoint: Checkpoint
    world: World
    group: Group
    position: Position
    """Brought to the checkpoint's; shared with who reports a failure."""

    @property
    def epoch(self) -> int:
        """The epoch of the checkpoint's last step, in which the run itself evaluated."""
        just_begun = self.position.step_in_epoch == 0 and self.position.epoch > 0
        return self.position.epoch - just_begun


def evaluate(bench: Bench) -> dict[str, float]:
    """The loss and every metric on every dataset but ``train``; all ranks call it together.

    With as many ranks and threads as the run had, and its config, the values are bit for bit those
    that the run logged at the checkpoint's step.

    Raises:
        ComponentError, CheckpointError: where parts, or the checkpoint, do not fit; and whatever a
            component raises.
    """
    experiment, world = bench.experiment, bench.world
    builder = Builder(experiment.seed, bench.position)
    names = [name for name in experiment.datasets if name != "train"]
    datasets = {name: build_dataset(builder, experiment.datasets[name]) for name in names}
    evaluator = Evaluator(
        step_module=_restored(builder, bench),
        readers={
            name: evaluation_reader(experiment, world, name, dataset) for name, dataset in datasets.items()
        },
        metrics={name: builder.build(part) for name, part in experiment.metrics.items()},
        group=bench.group,
        device=world.device,
        on_phase=bench.position.set_phase,
    )
    with _as_in_training(bench):
        values = evaluator.run(bench.epoch)
    assert values is not None  # nobody asks it to leave
    for reader in evaluator.readers.values():
        reader.close()
    return values


def predict(bench: Bench, dataset: str) -> Predictions | None:
    """The outputs for every index of a dataset, each once; on rank 0, None elsewhere. All ranks call it.

    Whole batches are dealt to the ranks, so a batch is the same computation at any number of ranks:
    with the same threads and devices, all numbers have equal bits. A batch has ``eval_batch_size``
    samples on one rank, or ``max_microbatch_size`` where that is less. Rank 0 holds the outputs of the
    whole dataset in memory, on the CPU.

    Raises:
        ComponentError: if the objective gives no predictions (n, ...) for a batch of n, or the dataset has
            no indices; and as ``evaluate``.
    """
    builder = Builder(bench.experiment.seed, bench.position)
    part = bench.experiment.datasets[dataset]
    samples = build_dataset(builder, part)
    if is_stream(samples):
        raise ComponentError(
            f"{part} is an iterable dataset: its samples have no indices to write predictions by; give it "
            "__len__ and __getitem__"
        )
    step_module = _restored(builder, bench)
    with torch.no_grad(), random_state.preserved(), evaluating(step_module):
        batches = list(_batches(bench, dataset, samples, step_module))
    bench.position.set_phase("gathering the predictions")
    by_rank: list[list[Batch]] = bench.group.gather(batches)
    if not bench.world.is_main:
        return None
    return joined([batch for rank in by_rank for batch in rank], str(bench.experiment.objective))


class WholeBatches:
    """The order of one rank's samples where batch b of the natural order falls to rank b % world_size."""

    def __init__(self, length: int, batch_size: int, *, rank: int, world_size: int) -> None:
        self._batch_size = batch_size
        self._rank = rank
        self._world_size = world_size
        starts = range(rank * batch_size, length, world_size * batch_size)
        self.samples_per_epoch = sum(min(batch_size, length - start) for start in starts)

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Dataset indices (stop - start,) at this rank's positions; the epoch does not matter."""
        batch, offset = np.divmod(np.arange(start, stop, dtype=np.int64), self._batch_size)
        return (batch * self._world_size + self._rank) * self._batch_size + offset


def _batches(bench: Bench, name: str, samples: Any, step_module: StepModule) -> Iterator[Batch]:
    """This rank's batches with their outputs, on the CPU."""
    experiment, world = bench.experiment, bench.world
    train = experiment.train
    size = train.eval_batch_size or train.global_batch_size
    size = min(size, train.max_microbatch_size or size)
    order = WholeBatches(len(samples), size, rank=world.rank, world_size=world.world_size)
    dealing = Dealing(order.samples_per_epoch, size)
    alone = replace(world, rank=0, world_size=1)  # the order has dealt already
    reader = build_reader(experiment, alone, name, samples, order, dealing)
    for step, share in enumerate(reader.epoch(bench.epoch)):
        bench.position.set_phase(f"dataset.{name}")
        batch = to_device(next(share.microbatches), world.device)
        window = dealing.window(step)
        indices = order.indices(bench.epoch, window.start, window.stop)
        # A model that draws even now draws the same for a batch, whichever rank it fell to.
        random_state.seed_all(experiment.seed, "predict", name, int(indices[0]))
        bench.position.set_phase("objective")
        yield batch_of(indices, step_module.outcome(batch), str(experiment.objective))
    reader.close()


def _restored(builder: Builder, bench: Bench) -> StepModule:
    """Model and objective as the checkpoint has them."""
    model = builder.build(bench.experiment.model)
    step_module = pair(builder, bench.experiment, model, bench.world)
    bench.position.set_phase("restoring a checkpoint")
    restore_modules(step_module, bench.checkpoint)
    bench.position.load_state_dict(bench.checkpoint.state["position"])
    return step_module


@contextmanager
def _as_in_training(bench: Bench) -> Iterator[None]:
    """Inside, this rank's random states are the checkpoint's, for models that draw even in evaluation."""
    ranks = bench.checkpoint.state["ranks"]
    with random_state.preserved():
        if len(ranks) == bench.world.world_size:
            random_state.restore(ranks[bench.world.rank]["random"])
        yield
