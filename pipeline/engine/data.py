"""The datasets of a run, built, and a reader of this rank's shares for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset

from pipeline.api.kinds import DEFAULT_SAMPLER
from pipeline.api.order import Order
from pipeline.api.seeds import derive_seed
from pipeline.engine.builder import Builder
from pipeline.engine.dealing import Dealing
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.fetch import Fetcher
from pipeline.engine.group import Alone, Group
from pipeline.engine.orders import as_order
from pipeline.engine.reader import NaturalOrder, Reader
from pipeline.engine.sendable import require_sendable
from pipeline.engine.share import ShareReader
from pipeline.engine.stream_fetch import StreamFetcher, can_shard
from pipeline.engine.stream_reader import StreamReader
from pipeline.engine.sync_batchnorm import require_paired
from pipeline.engine.world import World
from pipeline.errors import ComponentError, RunError


@dataclass(frozen=True)
class Data:
    """The readers of a run."""

    train: ShareReader
    evaluation: Mapping[str, ShareReader]
    lengths: Mapping[str, int | None]
    """Samples of each dataset by its key (``dataset.train``); None where it can only be iterated."""

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
    if experiment.loader.workers and experiment.loader.start_method != "fork":
        for name, part in experiment.datasets.items():
            builder.at_work(part.key)
            require_sendable(datasets[name], part, experiment.loader.start_method)
    build_train = _train_stream if is_stream(datasets["train"]) else _train_reader
    return Data(
        train=build_train(builder, experiment, world, group, datasets["train"]),
        evaluation={
            name: evaluation_reader(experiment, world, name, dataset)
            for name, dataset in datasets.items()
            if name != "train"
        },
        lengths={
            f"dataset.{name}": None if is_stream(dataset) else len(dataset)
            for name, dataset in datasets.items()
        },
    )


def build_dataset(builder: Builder, part: Part) -> Any:
    """Build a dataset.

    Raises:
        ComponentError: if it has a length, and that is 0.
    """
    dataset = builder.build(part)
    if not is_stream(dataset) and len(dataset) == 0:
        raise ComponentError(f"{part} is empty: it has length 0; expected at least one sample")
    return dataset


def is_stream(dataset: Any) -> bool:
    """Whether a dataset can only be iterated: it has no indices, or is one of torch's IterableDatasets."""
    has_indices = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return isinstance(dataset, IterableDataset) or not has_indices


def shards_of(dataset: Any, part: Part, world_size: int, workers: int) -> int:
    """In how many places an iterable dataset is read.

    Raises:
        ComponentError: if it cannot say how it splits for them.
    """
    shards = world_size * max(1, workers)
    if shards > 1 and not can_shard(dataset):
        raise ComponentError(
            f"{part} is an iterable dataset that cannot say how it splits, but {world_size} ranks with "
            f"{workers} workers each read it in {shards} places, and each would read all of it; give it "
            "shard(index, count), which returns the samples of share index of count, or __len__ and "
            "__getitem__, or run one process with loader.workers = 0"
        )
    return shards


def evaluation_reader(experiment: Experiment, world: World, name: str, dataset: Any) -> ShareReader:
    """Reads this rank's shares of a dataset in its natural order, as an evaluation wants it.

    Raises:
        ComponentError: if it is iterable, and cannot say how it splits.
    """
    batch = experiment.train.eval_batch_size or experiment.train.global_batch_size
    if is_stream(dataset):
        # Alone: an evaluation joins the ranks once, at its end, and not batch by batch.
        return _stream_reader(experiment, world, Alone(), name, dataset, batch, drop_last=False)
    length = len(dataset)
    return build_reader(experiment, world, name, dataset, NaturalOrder(length), Dealing(length, batch))


def _train_reader(
    builder: Builder, experiment: Experiment, world: World, group: Group, dataset: Any
) -> ShareReader:
    # The seed itself: the default order is that of EpochSampler(seed=seed), and `torch`'s that of torch.
    sampler = builder.build(experiment.sampler, dataset, seed=experiment.seed)
    seed = derive_seed(experiment.seed, "sampler")
    order = as_order(sampler, group, seed, experiment.sampler, is_main=world.is_main)
    builder.at_work("dealing the samples")
    dealing = _train_dealing(experiment, order)
    windows = [len(dealing.window(step)) for step in (0, dealing.steps - 1)]
    require_paired(experiment.train, windows, world.world_size)
    return build_reader(experiment, world, "train", dataset, order, dealing)


def _train_stream(
    builder: Builder, experiment: Experiment, world: World, group: Group, dataset: Any
) -> ShareReader:
    part, batch = experiment.datasets["train"], experiment.train.global_batch_size
    builder.at_work(part.key)
    if experiment.sampler.type != DEFAULT_SAMPLER:
        raise ComponentError(
            f"{part} is an iterable dataset, which comes in its own order, so {experiment.sampler} cannot be "
            "used; remove [sampler], or give the dataset __len__ and __getitem__"
        )
    if batch < world.world_size:
        raise RunError(
            f"train.global_batch_size = {batch} leaves some of the {world.world_size} ranks without a share, "
            f"and so the shards of {part} that fall to them unread; choose at least {world.world_size}"
        )
    drop_last = experiment.loader.drop_last
    if experiment.train.sync_batchnorm and world.world_size > 1 and not drop_last:
        raise RunError(
            f"train.sync_batchnorm = true would wait for ever at the end of {part}, where only some ranks "
            "may have samples left; set loader.drop_last = true"
        )
    require_paired(experiment.train, [batch], world.world_size)
    return _stream_reader(experiment, world, group, "train", dataset, batch, drop_last=drop_last)


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


def _stream_reader(
    experiment: Experiment,
    world: World,
    group: Group,
    name: str,
    dataset: Any,
    batch_size: int,
    *,
    drop_last: bool,
) -> StreamReader:
    part, loader = experiment.datasets[name], experiment.loader
    shards = shards_of(dataset, part, world.world_size, loader.workers)
    seed = derive_seed(experiment.seed, "samples", name)
    return StreamReader(
        StreamFetcher(dataset, shards=shards, seed=seed, sample_seeds=loader.sample_seeds),
        world,
        loader,
        group,
        batch_size=batch_size,
        max_microbatch_size=experiment.train.max_microbatch_size,
        drop_last=drop_last,
        must_have_some=name == "train",
        worker_seed=derive_seed(seed, "workers", world.rank),
        origin=str(part),
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
