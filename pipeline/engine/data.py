"""The datasets of a run, built, and a reader of this rank's shares for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.api.order import Order
from pipeline.api.seeds import derive_seed
from pipeline.engine.builder import Builder
from pipeline.engine.dealing import Dealing
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.fetch import Fetcher
from pipeline.engine.group import Group
from pipeline.engine.orders import as_order
from pipeline.engine.reader import NaturalOrder, Reader
from pipeline.engine.share import ShareReader
from pipeline.engine.world import World
from pipeline.errors import ComponentError, RunError


@dataclass(frozen=True)
class Data:
    """The readers of a run."""

    train: ShareReader
    evaluation: Mapping[str, ShareReader]

    def close(self) -> None:
        """End the readers' workers."""
        for reader in (self.train, *self.evaluation.values()):
            reader.close()


def build_data(builder: Builder, experiment: Experiment, world: World, group: Group) -> Data:
    """Build datasets and sampler.

    Raises:
        ComponentError, RunError: if a dataset or order cannot be dealt.
    """
    datasets = {name: build_dataset(builder, part) for name, part in experiment.datasets.items()}
    # The seed itself: the default order is that of EpochSampler(seed=seed), and `torch`'s that of torch.
    sampler = builder.build(experiment.sampler, datasets["train"], seed=experiment.seed)
    order = as_order(sampler, group, derive_seed(experiment.seed, "sampler"), experiment.sampler)
    builder.at_work("dealing the samples")
    dealing = _train_dealing(experiment, order)
    return Data(
        train=build_reader(experiment, world, "train", datasets["train"], order, dealing),
        evaluation={
            name: evaluation_reader(experiment, world, name, dataset)
            for name, dataset in datasets.items()
            if name != "train"
        },
    )


def build_dataset(builder: Builder, part: Part) -> Any:
    """Build a dataset, and refuse one that cannot be dealt.

    Raises:
        ComponentError: if it has no length, no items, or none at all.
    """
    dataset = builder.build(part)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ComponentError(
            f"{part} is an iterable dataset, which this version cannot deal to the ranks exactly; "
            "give it __len__ and __getitem__"
        )
    if len(dataset) == 0:
        raise ComponentError(f"{part} is empty: it has length 0; expected at least one sample")
    return dataset


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
