"""What the parts of the engine cost beside the step: reading, evaluating, rows of metrics, hooks, epochs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.figure import Figure
from benchmarks.meter import undisturbed
from benchmarks.probed import probed, train_table
from benchmarks.workloads import WORKLOADS
from pipeline.api.settings import DistributedSettings, LoaderSettings
from pipeline.components.samplers.shuffle import Shuffle
from pipeline.engine.dealing import Dealing
from pipeline.engine.fetch import Fetcher
from pipeline.engine.reader import Reader
from pipeline.engine.world import World

ROUNDS = 5
TURNS = 8
"""Of a round, each side once in every one; the least counts, which no other process has disturbed."""
HOOKS, WINDOW = 50, 50
EPOCHS, STEPS_OF_AN_EPOCH = 20, 20
SEEDED_BATCHES = 100
LOG_EVERY, ROWS = 100, 40
BY_HAND: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "`index_select`": lambda rows, index: rows.index_select(0, index),
    "`rows[index]`": lambda rows, index: rows[index],
}
"""How a loop by hand takes the rows of a batch."""


def measure_costs() -> Iterator[Figure]:
    """Every figure, in turns with what it is compared with.

    Raises:
        FailedError: if a run fails.
    """
    torch.set_num_threads(1)
    yield evaluation("mlp")
    yield from fetching("mlp")
    yield from fetching("linear")  # rows so short that little but the calls is measured
    yield between_epochs()
    yield log_points("linear")
    yield log_points("mlp", rows=15)
    yield reported_speed()
    yield empty_hook()
    yield sample_seeds()


def evaluation(workload_name: str, *, rounds: int = ROUNDS, turns: int = TURNS) -> Figure:
    """An evaluation on all rows of a workload, over a bare forward loop on views of them."""
    batch = WORKLOADS[workload_name].batch_per_rank
    data = {"type": "benchmark", "workload": workload_name}
    _, *pairs = probed(  # the first one warms up
        workload_name,
        dataset={"train": data, "eval": data},
        train=train_table(workload_name, steps=1 + rounds * turns, evaluate_every="1 step"),
        hooks={"bare_evaluation": {"workload": workload_name, "batch": batch}},
    )
    leasts = [_leasts(pairs[first : first + turns]) for first in range(0, len(pairs), turns)]
    ratios = tuple(own / bare for own, bare in leasts)
    return Figure(f"an evaluation of {workload_name}, over a bare forward loop", "", 1.1, ratios)


def fetching(workload_name: str) -> Iterator[Figure]:
    """An epoch of shuffled batches of rows in memory, over each way to cut a permutation by hand."""
    dataset, batch = WORKLOADS[workload_name].data.make(), WORKLOADS[workload_name].batch_per_rank
    reader = _reader(dataset, batch)

    def by_hand(cut: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Any]:
        for index in torch.randperm(len(dataset)).split(batch):
            yield tuple(cut(rows, index) for rows in dataset.tensors)

    sides = [partial(_epoch, reader), *(partial(by_hand, cut) for cut in BY_HAND.values())]
    engine, *hands = zip(*(_in_turns(*sides) for _ in range(ROUNDS)), strict=True)
    for how, hand in zip(BY_HAND, hands, strict=True):
        ratios = tuple(own / bare for own, bare in zip(engine, hand, strict=True))
        yield Figure(f"rows of {workload_name} fetched by batch, over {how}", "", 1.3, ratios)


def between_epochs() -> Figure:
    """From the last update of an epoch to the first of the next, less what a step takes, with two workers."""
    workload = WORKLOADS["samples"]
    length = STEPS_OF_AN_EPOCH * workload.batch_per_rank
    moments = probed(
        "samples",
        dataset={"train": {"type": "random", "length": length, "input_shape": [64], "classes": 10}},
        train=train_table("samples", epochs=EPOCHS),
        loader={"workers": workload.workers},
        hooks={"moments": {"every": 1}},
    )
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    pauses = gaps[STEPS_OF_AN_EPOCH - 1 :: STEPS_OF_AN_EPOCH]
    return Figure(
        "between epochs, two workers", "ms", 50, tuple(1e3 * (pause - median(gaps)) for pause in pauses)
    )


def log_points(workload_name: str, *, rounds: int = ROUNDS, rows: int = ROWS) -> Figure:
    """PRF-01: steps with a row of metrics now and then, over the same steps without."""
    shares = []
    for _ in range(rounds):
        moments = _logged(workload_name, rows + 1, moments={"every": 1})
        gaps = [later - earlier for earlier, later in pairwise(moments[LOG_EVERY - 1 :])]
        by_place = [median(gaps[place::LOG_EVERY]) for place in range(LOG_EVERY)]  # the first has the row
        shares.append(sum(by_place) / (LOG_EVERY * median(by_place)))
    what = f"{workload_name} with a row of metrics every {LOG_EVERY} steps, over none"
    return Figure(what, "", 1.02, tuple(shares))


def reported_speed(*, rounds: int = ROUNDS, rows: int = ROWS) -> Figure:
    """PRF-01: by how much the logged samples per second are off those of a clock beside the run."""
    return Figure(
        "logged samples per second, off the clock's", "%", 1, tuple(_off(rows) for _ in range(rounds))
    )


def _off(rows: int) -> float:
    """In percent, of the time between two rows where it is most; the speed of it is in the next row."""
    seen = _logged("linear", rows + 1, throughput={}, reported={})
    return max(
        100 * abs(speed * (ended - began) / (later - earlier) - 1)
        for (began, earlier, _), (ended, later, _), (_, _, speed) in zip(
            seen, seen[1:], seen[2:], strict=False
        )
    )


def _logged(workload_name: str, rows: int, **hooks: dict[str, Any]) -> Any:
    """What the probe among the hooks has seen of so many rows of metrics."""
    train = train_table(workload_name, steps=rows * LOG_EVERY, log_every=f"{LOG_EVERY} steps")
    return probed(workload_name, train=train, hooks=hooks)


def empty_hook(*, steps: int = 6_000) -> Figure:
    """The linear model's step with many hooks, less the one without, for each hook."""

    def step(hooks: int) -> float:
        tables = {f"empty{number}": {"type": "empty"} for number in range(hooks)}
        train = train_table("linear", steps=steps)
        moments = probed("linear", train=train, hooks={"moments": {"every": WINDOW}, **tables})
        return undisturbed(moments) / WINDOW

    costs = tuple(1e6 * (step(HOOKS) - step(0)) / HOOKS for _ in range(ROUNDS))
    return Figure("an empty hook, a step", "us", 5, costs)


def sample_seeds() -> Figure:
    """Samples read with a seed for each, less those without, for each sample."""
    workload = WORKLOADS["samples"]
    rows = SEEDED_BATCHES * workload.batch_per_rank
    dataset = replace(workload.data, rows=rows).make()
    sides = [
        partial(_epoch, _reader(dataset, workload.batch_per_rank, sample_seeds=seeds))
        for seeds in (True, False)
    ]
    rounds = [_in_turns(*sides) for _ in range(ROUNDS)]
    costs = tuple(1e6 * (seeded - without) / rows for seeded, without in rounds)
    return Figure("`sample_seeds`, a sample", "us", 15, costs)


def _reader(dataset: Any, batch: int, *, sample_seeds: bool = False) -> Reader:
    """The engine's reader of a dataset, shuffled, on the only rank."""
    world = World.from_environment(DistributedSettings(device="cpu"), {})
    return Reader(
        Fetcher(dataset, seed=7, sample_seeds=sample_seeds),
        Shuffle(dataset, seed=7),
        Dealing(len(dataset), batch),
        world,
        LoaderSettings(),
        max_microbatch_size=None,
        worker_seed=7,
    )


def _epoch(reader: Reader) -> Iterator[Any]:
    """The batches of an epoch."""
    for share in reader.epoch(0):
        yield from (next(share.microbatches) for _ in share.sizes)


def _in_turns(*sides: Callable[[], Iterator[Any]]) -> list[float]:
    """Of each side the seconds of all its batches, the order of them included."""
    return _leasts([[_seconds(side) for side in sides] for _ in range(TURNS)])


def _seconds(side: Callable[[], Iterator[Any]]) -> float:
    begin = time.perf_counter()
    deque(side(), maxlen=0)
    return time.perf_counter() - begin


def _leasts(turns: Sequence[Sequence[float]]) -> list[float]:
    """The least of each side."""
    return [min(of) for of in zip(*turns, strict=True)]
