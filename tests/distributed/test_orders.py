"""Any order is dealt exactly: the ranks' shares, put together, are the order of one process."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler

from pipeline import EpochSampler
from runs_of import PARTS, only_run, record_of, weights_of, write_config

MORE_PARTS = [str(PARTS.with_name(name)) for name in ("parts.py", "killers.py", "reading_parts.py")]
LENGTH, BATCH, EPOCHS = 16, 6, 3


def config_of(folder, sampler, **changes):
    """A config whose dataset notes what it is asked for, in FOLDER/read."""
    (folder / "read").mkdir(parents=True, exist_ok=True)
    dataset = {"type": "indexed", "length": LENGTH, "folder": str(folder / "read")}
    defaults = {
        "components": MORE_PARTS,
        "dataset": {"train": dataset},
        "objective": {"type": "telling"},
        "metrics": {},
        "train": {"epochs": EPOCHS, "global_batch_size": BATCH, "log_every": "1 step"},
    }
    if sampler is not None:
        defaults["sampler"] = sampler
    return write_config(folder, **defaults | changes)


def ran(command, folder, world_size, config):
    job = command(world_size, ["run", config, "--runs-dir", folder / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(folder / "runs")


def rows_of_rank(folder, rank):
    path = folder / f"rank-{rank}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def order_of(folder, world_size, epoch, length=LENGTH):
    """The ranks' reads of an epoch, interleaved as they were dealt."""
    streams = [
        iter([row["index"] for row in rows_of_rank(folder / "read", rank) if row.get("epoch") == epoch])
        for rank in range(world_size)
    ]
    order = []
    for start in range(0, length, BATCH):
        order += [next(streams[position % world_size]) for position in range(min(BATCH, length - start))]
    assert all(next(stream, None) is None for stream in streams)
    return order


def in_one_process(length=LENGTH):
    sampler = EpochSampler(length, seed=11, rank=0, world_size=1, global_batch_size=BATCH)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        yield [index for batch in sampler for index in batch]


def of_torch(epoch):
    sampler = DistributedSampler(range(LENGTH), num_replicas=1, rank=0, seed=11)
    sampler.set_epoch(epoch)
    return list(sampler)


EXPECTED = {
    "shuffle": list(in_one_process()),
    "sequential": [list(range(LENGTH))] * EPOCHS,
    "torch": [of_torch(epoch) for epoch in range(EPOCHS)],
    "descending": [list(range(LENGTH - 1, -1, -1))] * EPOCHS,
    "inside_another": [list(range(LENGTH - 1, -1, -1))] * EPOCHS,
    "outside_in": [[0, 15, 1, 14, 2, 13, 3, 12, 4, 11, 5, 10, 6, 9, 7, 8]] * EPOCHS,
}


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("sampler", EXPECTED)
def test_interleaved_shares_are_the_samplers_own_order(command, tmp_path, world_size, sampler):
    """SMP-08, REQ-06, SMP-01: each index on one rank, in the order that the sampler gives, every epoch."""
    ran(command, tmp_path, world_size, config_of(tmp_path, {"type": sampler}))
    assert [order_of(tmp_path, world_size, epoch) for epoch in range(EPOCHS)] == EXPECTED[sampler]


@pytest.mark.parametrize("world_size", [2, 3])
def test_weights_hold_over_all_ranks(command, tmp_path, world_size):
    """SMP-08, REQ-06: index 3 has nine tenths of the weight, and the ranks do not draw the same."""
    weights = [0.1 / (LENGTH - 1)] * LENGTH
    weights[3] = 0.9
    sampler = {"type": "weighted", "weights": weights, "samples_per_epoch": 600}
    orders = {}
    for size in (1, world_size):
        folder = tmp_path / str(size)
        ran(command, folder, size, config_of(folder, sampler, train__epochs=1))
        orders[size] = order_of(folder, size, 0, length=600)
    assert orders[world_size] == orders[1]
    assert np.mean(np.array(orders[1]) == 3) == pytest.approx(0.9, abs=0.06)  # 5 standard deviations
    shares = [orders[1][rank::world_size] for rank in range(world_size)]
    assert shares[0] != shares[1]


@pytest.mark.parametrize("sampler", ["weighted", "descending", "outside_in"])
def test_a_killed_run_goes_on_in_the_same_order(command, tmp_path, sampler):
    """REQ-06: exact resume in mid-epoch, whatever the order."""
    table = {"type": sampler} | (
        {"weights": [1.0 + n for n in range(LENGTH)]} if sampler == "weighted" else {}
    )
    hooks = {"checkpoint": {"every": "1 step"}}
    whole = ran(command, tmp_path / "a", 2, config_of(tmp_path / "a", table, hooks=hooks))
    config = config_of(tmp_path / "b", table, hooks=hooks | {"killer": {"step": 5}})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "b" / "runs"])
    assert job.wait() == [-9, -9], job.report()
    killed = only_run(tmp_path / "b" / "runs")
    job = command(2, ["run", config, "--resume", killed, "--unset", "hooks.killer"])
    assert job.wait() == [0, 0], job.report()
    ours, theirs = weights_of(killed), weights_of(whole)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_without_a_seed_the_ranks_share_a_drawn_one(command, tmp_path):
    """SMP-04: whatever a constructor draws; and the seed in the record gives the same order again."""
    train = {"type": "indexed", "length": LENGTH, "rank_draws": True}
    drawn, again = tmp_path / "drawn", tmp_path / "again"
    orders = []
    for folder in (drawn, again):
        seed = None if folder == drawn else record_of(only_run(drawn / "runs"))["seed"]
        dataset = {"train": train | {"folder": str(folder / "read")}}
        ran(command, folder, 2, config_of(folder, None, dataset=dataset, seed=seed, train__epochs=1))
        orders.append(order_of(folder, 2, 0))
    assert sorted(orders[0]) == list(range(LENGTH))
    assert orders[0] == orders[1]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("sampler", ["descending", "inside_another"])
@pytest.mark.parametrize("dataset", ["indexed", "wrapped"])
def test_the_epoch_reaches_everything_once_and_in_order(command, tmp_path, workers, sampler, dataset):
    """SMP-02: samplers and datasets, wrapped ones too, on every rank and in every worker, before a read."""
    (tmp_path / "told").mkdir()
    (tmp_path / "read").mkdir()
    train = {"type": dataset, "length": LENGTH, "folder": str(tmp_path / "read")}
    config = config_of(
        tmp_path,
        {"type": sampler, "folder": str(tmp_path / "told")},
        dataset={"train": train},
        loader={"workers": workers},
    )
    ran(command, tmp_path, 2, config)
    for rank in range(2):
        told = [row.get("set_epoch", "read") for row in rows_of_rank(tmp_path / "told", rank)]
        assert [epoch for epoch in told if epoch != "read"] == [0, 1, 2]
        assert told == ([0, "read", 1, "read", 2, "read"] if rank == 0 else [0, 1, 2])
        rows = rows_of_rank(tmp_path / "read", rank)
        by_process: dict[int, list[int]] = {}
        for row in rows:
            if "set_epoch" in row:
                by_process.setdefault(row["pid"], []).append(row["set_epoch"])
        copies = [[1, 2]] * workers  # workers are copies of a dataset that has been told the first
        assert sorted(by_process.values()) == [[0, 1, 2], *copies]
        assert all(row["epoch"] >= 0 for row in rows if "index" in row)


def test_a_batch_sampler_is_refused_with_the_reason(command, tmp_path):
    """SMP-02 (a, b), SMP-08: rather than to guess."""
    config = config_of(tmp_path, {"type": "batched"})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [1, 1]
    text = job.output(0) + job.output(1)
    assert "a batch sampler: the engine forms the batches itself" in text, text
