"""Iterable datasets: every sample once, all ranks end together, and a killed run goes on exactly."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch
from torch.nn.functional import cross_entropy

from pipeline.engine.random_state import preserved, seed_all
from runs_of import PARTS, only_run, record_of, rows_of, weights_of, write_config

MORE_PARTS = [str(PARTS.with_name(name)) for name in ("parts.py", "killers.py", "reading_parts.py")]
NET = {"type": "net", "double": True}


def config_of(folder, *, train, evaluation=None, **changes):
    """A config that trains on numbers, its objective writing to FOLDER/seen."""
    (folder / "seen").mkdir(exist_ok=True)
    datasets = {"train": {"type": "numbers"} | train}
    if evaluation is not None:
        datasets["eval"] = {"type": "numbers"} | evaluation
    defaults = {
        "components": MORE_PARTS,
        "model": NET,
        "dataset": datasets,
        "objective": {"type": "telling", "folder": str(folder / "seen")},
        "metrics": {},
        "train": {"epochs": 2, "global_batch_size": 4, "log_every": "1 step"},
    }
    return write_config(folder, **defaults | changes)


def trained(command, config, world_size, *arguments, folder=None):
    runs = (folder or config.parent) / f"runs-{world_size}"
    job = command(world_size, ["run", config, "--runs-dir", runs, *arguments])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(runs)


def lines_of(folder):
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def numbers_of(folder, *, training):
    """How often every number was in a batch."""
    rows = [row for row in lines_of(folder) if row["training"] is training]
    return Counter(number for row in rows for number in row["numbers"])


@pytest.mark.parametrize(("world_size", "workers"), [(1, 0), (1, 2), (2, 0), (2, 2), (3, 0), (3, 1)])
@pytest.mark.parametrize("split", ["strides", "blocks"])
def test_every_sample_comes_once_an_epoch(command, tmp_path, world_size, workers, split):
    """SMP-09: 0 to 9, in training and in evaluation, whatever ranks, workers and split."""
    config = config_of(
        tmp_path,
        train={"length": 10, "split": split},
        evaluation={"length": 7, "split": split},
        metrics={"mean_number": {}, "how_many": {}},
        loader={"workers": workers},
    )
    folder = trained(command, config, world_size)
    assert numbers_of(tmp_path / "seen", training=True) == dict.fromkeys(range(10), 2)
    assert numbers_of(tmp_path / "seen", training=False) == dict.fromkeys(range(7), 2)
    rows = [row for row in rows_of(folder) if "eval/how_many" in row]
    assert [(row["epoch"], row["eval/how_many"], row["eval/mean_number"]) for row in rows] == [
        (0, 7, 3.0),
        (1, 7, 3.0),
    ]


def plain(batches, epochs):
    """One process that takes the mean over each whole batch, in plain torch."""
    parts = load_parts()
    seed_all(11, "build", "model")
    model = parts["Net"](double=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for numbers in batches:
            samples = [next(iter(parts["Shard"]([number], 0.0, None))) for number in numbers]
            inputs = torch.stack([sample[0] for sample in samples])
            labels = torch.tensor([sample[1] for sample in samples])
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return model.state_dict()


def load_parts():
    """The parts as names; what they register is for the ranks, not for this process."""
    import runpy
    from unittest import mock

    from pipeline.api import register

    with mock.patch.dict(register._registrations, clear=True):
        return {key: value for path in MORE_PARTS for key, value in runpy.run_path(path).items()}


def dealt(shards, shares):
    """Global batches, where each rank takes its share of its own shard while it lasts."""
    cut = [
        [shard[start : start + share] for start in range(0, len(shard), share)]
        for shard, share in zip(shards, shares, strict=True)
    ]
    steps = max(map(len, cut))
    return [[n for rank in cut for n in (rank[step] if step < len(rank) else ())] for step in range(steps)]


@pytest.mark.parametrize("accumulated", [False, True])
@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_with_unequal_numbers_end_together(command, tmp_path, world_size, accumulated):
    """HNG-02: no rank waits for one that has run out, and every sample counts the same to the very end."""
    blocks = {2: [range(24), range(24, 36)], 3: [range(24), range(24, 25), range(25, 36)]}[world_size]
    shares = {2: [4, 4], 3: [3, 3, 2]}[world_size]
    config = config_of(
        tmp_path,
        train={"length": 36, "split": "blocks"},
        evaluation={"length": 9, "split": "blocks"},
        metrics={"how_many": {}},
        hooks={"checkpoint": {"every": "1 epoch"}},
        train__global_batch_size=8,
        **({"train__max_microbatch_size": 2} if accumulated else {}),
    )
    folder = trained(command, config, world_size)
    batches = dealt([list(block) for block in blocks], shares)
    assert record_of(folder)["steps"] == 2 * len(batches)
    with preserved():
        expected = plain(batches, epochs=2)
    for name, value in weights_of(folder).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-10)
    assert [row["eval/how_many"] for row in rows_of(folder) if "eval/how_many" in row] == [9, 9]


def test_strides_are_the_experiment_of_one_process(command, tmp_path):
    """Where a share of count is every count-th sample, and shares are even, global batches are the same."""
    config = config_of(
        tmp_path,
        train={"length": 37},
        hooks={"checkpoint": {"every": "1 epoch"}},
        train__global_batch_size=8,
    )
    one, two = (weights_of(trained(command, config, world_size)) for world_size in (1, 2))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_rank_may_be_the_one_without_samples(command, tmp_path, weighted):
    config = config_of(tmp_path, train={"length": 9, "split": "first_empty"}, loader={"workers": 0})
    config.write_text(
        config.read_text().replace("[objective]", f"[objective]\nweighted = {weighted}".lower())
    )
    trained(command, config, 2)
    assert numbers_of(tmp_path / "seen", training=True) == dict.fromkeys(range(9), 2)


def test_drop_last_ends_before_the_first_batch_that_is_not_full(command, tmp_path):
    config = config_of(tmp_path, train={"length": 23}, loader={"drop_last": True})
    folder = trained(command, config, 2)
    assert record_of(folder)["steps"] == 10
    assert numbers_of(tmp_path / "seen", training=True) == dict.fromkeys(range(20), 2)


def test_epochs_reach_the_dataset(command, tmp_path):
    """SMP-02: once each, in order, before the first sample, on every rank."""
    (tmp_path / "epochs").mkdir()
    train = {"length": 12, "epochs": str(tmp_path / "epochs"), "reads": str(tmp_path / "epochs")}
    trained(command, config_of(tmp_path, train=train), 2)
    for path in (tmp_path / "epochs").glob("rank-*.jsonl"):
        told = [json.loads(line).get("set_epoch", "read") for line in path.read_text().splitlines()]
        assert told == [0, *["read"] * 6, 1, *["read"] * 6]


@pytest.mark.parametrize("workers", [0, 2])
def test_no_sample_draws_what_another_drew(command, tmp_path, workers):
    """SMP-05, SMP-06: over ranks, workers and epochs, for torch, numpy and random; and again the same."""
    drawn = []
    for name in ("first", "second"):
        folder = tmp_path / name
        (folder / "reads").mkdir(parents=True)
        train = {"length": 20, "reads": str(folder / "reads")}
        trained(command, config_of(folder, train=train, loader={"workers": workers}), 2)
        drawn.append(sorted((row["read"], *row["drawn"]) for row in lines_of(folder / "reads")))
    assert drawn[0] == drawn[1]
    for library in (1, 2, 3):
        assert len({row[library] for row in drawn[0]}) == len(drawn[0]) == 40


STEPS = [4, 6, 1, 7, 2, 3, 5, 8, 9, 10, 11]  # of 12: the middle of an epoch first, then its end


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("resumable", [True, False], ids=["state", "no state"])
def test_killed_and_resumed_equals_never_killed(command, tmp_path, count, resumable, workers):
    """REQ-01: with draws in every sample; where shards have a state, none is read again."""
    split = "strides" if workers else "blocks"  # where all shards last, their turn matters
    length = 61 if workers else 37
    train = {"length": length, "split": split, "noise": 0.3, "resumable": resumable}
    changes = {
        "train__global_batch_size": 8,
        "train__max_microbatch_size": 3,
        "loader": {"workers": workers},
    }
    saving = {"checkpoint": {"every": "1 step"}}
    whole = trained(command, config_of(tmp_path, train=train, hooks=saving, **changes), 2)
    for step in STEPS[: count(2, len(STEPS))]:
        folder = tmp_path / str(step)
        folder.mkdir()
        hooks = saving | {"killer": {"step": step}}
        config = config_of(folder, train=train, hooks=hooks, **changes)
        job = command(2, ["run", config, "--runs-dir", folder / "runs"])
        assert job.wait() == [-9, -9], job.report()
        killed = only_run(folder / "runs")
        job = command(2, ["run", config, "--resume", killed, "--unset", "hooks.killer"])
        assert job.wait() == [0, 0], job.report()
        assert rows_of(killed) == rows_of(whole)
        ours, theirs = weights_of(killed), weights_of(whole)
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
        if step == 4:
            assert ("no state_dict" in job.output(0)) != resumable, job.output(0)


def test_a_resumed_shard_reads_no_sample_again(command, tmp_path):
    """REQ-01: what was read when the run was stopped, and what the resumed one read."""
    (tmp_path / "reads").mkdir()
    train = {"length": 64, "resumable": True, "reads": str(tmp_path / "reads")}
    config = config_of(tmp_path, train=train, train__epochs=1, hooks={"checkpoint": {"every": "1 step"}})
    runs = tmp_path / "runs"
    job = command(2, ["run", config, "--runs-dir", runs, "--set", "hooks.killer={step=10}"])
    assert job.wait() == [-9, -9], job.report()
    for path in (tmp_path / "reads").iterdir():
        path.unlink()
    job = command(2, ["run", config, "--resume", only_run(runs)])
    assert job.wait() == [0, 0], job.report()
    saved = 4 * 9  # the killer comes before the tenth step's checkpoint
    assert sorted(row["read"] for row in lines_of(tmp_path / "reads")) == list(range(saved, 64))


def test_another_number_of_ranks_resumes_at_an_epochs_end_alone(command, tmp_path):
    changes = {"hooks": {"checkpoint": {"every": "1 step", "keep_last": 9}}}
    (tmp_path / "reads").mkdir()
    train = {"length": 24, "reads": str(tmp_path / "reads")}
    config = config_of(tmp_path, train=train, train__steps=8, train__epochs=None, **changes)
    runs = tmp_path / "runs"
    assert command(2, ["run", config, "--runs-dir", runs]).wait() == [0, 0]
    longer = config_of(tmp_path, train=train, train__steps=14, train__epochs=None, **changes)
    job = command(3, ["run", longer, "--resume", only_run(runs)])
    assert job.wait() == [1, 1, 1]
    text = job.output(0) + job.output(1) + job.output(2)
    assert "in the middle of an epoch" in text and "an epoch's end" in text, text
    job = command(2, ["run", longer, "--resume", only_run(runs), "--set", "loader.workers=2"])
    assert job.wait() == [1, 1]
    assert "as many ranks and loader.workers as before" in job.output(0) + job.output(1)
    job = command(2, ["run", longer, "--resume", only_run(runs), "--set", "train.steps=12"])
    assert job.wait() == [0, 0], job.report()
    for path in (tmp_path / "reads").iterdir():
        path.unlink()
    job = command(3, ["run", longer, "--resume", only_run(runs), "--set", "train.steps=20"])
    assert job.wait() == [0, 0, 0], job.report()
    assert sorted(row["read"] for row in lines_of(tmp_path / "reads")) == list(range(24))
    assert record_of(only_run(runs))["steps"] == 20


UNSPLIT = {"train": {"type": "unsplit", "length": 9}}
TOO_FEW = {"loader": {"drop_last": True}, "train__global_batch_size": 16}
COSINE = {"type": "warmup_cosine", "warmup_steps": 2}
REFUSED = [
    pytest.param(2, {"dataset": UNSPLIT}, ["shard(index, count)", "2 places"], id="ranks"),
    pytest.param(1, {"dataset": UNSPLIT, "loader": {"workers": 3}}, ["shard(", "3 places"], id="workers"),
    pytest.param(1, {"scheduler": COSINE}, ["warmup_cosine", "set train.steps"], id="length"),
    pytest.param(1, {"sampler": {"type": "sequential"}}, ["own order", "remove [sampler]"], id="sampler"),
    pytest.param(2, {"train__global_batch_size": 1}, ["global_batch_size = 1", "at least 2"], id="batch"),
    pytest.param(2, TOO_FEW, ["gave 9 samples in epoch 0", "at least 16"], id="too few"),
]


@pytest.mark.parametrize(("world_size", "changes", "says"), REFUSED)
def test_what_cannot_be_exact_is_refused_before_training(command, tmp_path, world_size, changes, says):
    """SMP-09, SMP-08: with the remedy, and without a step."""
    config = config_of(tmp_path, train={"length": 9}, **changes)
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [1] * world_size, job.report()
    text = "".join(job.output(rank) for rank in range(world_size))
    assert all(part in text for part in says), text
    assert record_of(only_run(tmp_path / "runs"))["steps"] == 0


def test_a_scheduler_may_know_the_length_where_the_config_says_it(command, tmp_path):
    config = config_of(
        tmp_path,
        train={"length": 9},
        scheduler={"type": "one_cycle_lr", "max_lr": 0.2},
        train__epochs=None,
        train__steps=7,
        hooks={"progress": {}, "lr_monitor": {}},
    )
    assert record_of(trained(command, config, 2))["steps"] == 7


def test_one_place_needs_no_split_and_evaluate_reads_it_too(command, tmp_path):
    """An evaluation alone gives what was logged; predictions need indices, and say so."""
    config = config_of(
        tmp_path,
        train={"type": "unsplit", "length": 9},
        evaluation={"length": 7},
        metrics={"mean_number": {}},
        hooks={"checkpoint": {"every": "1 epoch"}, "progress": {}, "lr_monitor": {}, "profiler": {}},
    )
    folder = trained(command, config, 1)
    assert numbers_of(tmp_path / "seen", training=True) == dict.fromkeys(range(9), 2)
    rates = [(row["step"], row["lr/0"]) for row in rows_of(folder) if "lr/0" in row]
    assert rates == [
        (row["step"], row["lr"]) for row in rows_of(folder) if "lr" in row
    ]  # none after the last
    for world_size in (1, 2):
        changes = ["--set", "metrics.mean_number={}", "--json"]
        job = command(world_size, ["evaluate", folder, *changes], launcher=world_size > 1)
        assert job.wait() == [0] * world_size, job.report()
        assert json.loads(job.stdout(0))["metrics"]["eval/mean_number"] == 3.0
    job = command(1, ["predict", folder, "--dataset", "eval", "-o", tmp_path / "out.npy"], launcher=False)
    assert job.wait() == [1]
    assert "no indices" in job.output(0)


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({}, 0, ""),
        ({"dataset": UNSPLIT}, 2, "shard(index, count)"),
        ({"scheduler": COSINE}, 2, "set train.steps"),
        ({"scheduler": COSINE, "train__epochs": None, "train__steps": 9}, 0, ""),
    ],
    ids=["fits", "no split", "length", "known length"],
)
def test_check_says_what_a_run_would(command, tmp_path, changes, status, says):
    train = {"length": 9, "single": True}
    config = config_of(tmp_path, train=train, model={"type": "net"}, hooks={"checkpoint": {}}, **changes)
    job = command(1, ["check", config, "--world-size", "2"], launcher=False)
    assert job.wait() == [status], job.report()
    assert says in job.output(0), job.output(0)
