"""Promise 1 and 2: the same experiment at any world size, every sample exactly once."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch
from torch.nn.functional import cross_entropy

from killing import record, recorded_config
from pipeline import EpochSampler
from pipeline.engine.random_state import preserved, seed_all
from runs_of import PARTS, only_run, rows_of, weights_of, write_config
from separate import load_parts

KEEP_ALL = {"checkpoint": {"every": "1 epoch", "keep_last": 9}}


def trained(command, folder, world_size, config):
    """Run a config at a world size; the run folder."""
    runs = folder / f"runs-{world_size}"
    job = command(world_size, ["run", config, "--runs-dir", runs])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(runs)


def assert_close(left, right, tolerance):
    assert left.keys() == right.keys()
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="even and short batches"),
        pytest.param({"train__max_microbatch_size": 3}, id="accumulation"),
        pytest.param({"train__global_batch_size": 7, "train__clip_grad_norm": 0.05}, id="uneven, clipped"),
        pytest.param({"train__global_batch_size": 39}, id="last batch of one sample"),
        pytest.param({"loader__workers": 2}, id="workers"),
    ],
)
def test_world_size_does_not_change_the_parameters_in_float64(command, tmp_path, changes):
    """ACC-02, MET-03: every sample counts the same whatever rank or microbatch it fell in."""
    config = write_config(
        tmp_path,
        model={"type": "net", "double": True},
        dataset={
            "train": {"type": "points", "length": 40, "double": True},
            "eval": {"type": "points", "length": 23, "double": True},
        },
        hooks=KEEP_ALL,
        **changes,
    )
    one, two, three = (trained(command, tmp_path, size, config) for size in (1, 2, 3))
    for other in (two, three):
        for step in sorted(path.name for path in (one / "checkpoints").glob("step-*")):
            assert_close(weights_of(one, step), weights_of(other, step), 1e-10)
        for row, expected in zip(rows_of(other), rows_of(one), strict=True):
            assert row.keys() == expected.keys()
            assert row == pytest.approx(expected, abs=1e-9)
            if "eval/accuracy" in row:  # a ratio of counts is exact
                assert row["eval/accuracy"] == expected["eval/accuracy"]


def test_tokens_count_the_same_in_any_arrangement(command, tmp_path):
    """ACC-01: microbatches with 1 and 9 tokens, and with none, against one process with one batch."""
    configs = {}
    for limit in (None, 1):
        (tmp_path / str(limit)).mkdir()
        configs[limit] = write_config(
            tmp_path / str(limit),
            model={"type": "bigrams"},
            dataset={
                "train": {"type": "sequences", "length": 20},
                "eval": {"type": "sequences", "length": 7},
            },
            objective={"type": "summed_tokens"},
            metrics={"perplexity": {}},
            train__global_batch_size=4,
            train__max_microbatch_size=limit,
            hooks=KEEP_ALL,
        )
    whole = trained(command, tmp_path / "None", 1, configs[None])
    with preserved():
        expected = plain_token_mean(steps=15, batch=4)
    assert_close(weights_of(whole), expected, 1e-10)
    for limit, config in configs.items():
        for size in (1, 2, 3):
            other = (
                trained(command, tmp_path / str(limit), size, config) if (limit, size) != (None, 1) else whole
            )
            assert_close(weights_of(whole), weights_of(other), 1e-10)
            assert rows_of(other)[-1] == pytest.approx(rows_of(whole)[-1], abs=1e-9)


def plain_token_mean(steps, batch):
    """One process, the mean over the counted tokens of each whole batch, in plain torch."""
    parts = load_parts(PARTS)
    seed_all(11, "build", "model")
    model = parts.Bigrams()
    data = parts.Sequences(20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = EpochSampler(20, seed=11, rank=0, world_size=1, global_batch_size=batch)
    for step in range(steps):
        epoch, number = divmod(step, len(sampler))
        if number == 0:
            sampler.set_epoch(epoch)
            batches = iter(sampler)
        indices = next(batches)
        optimizer.zero_grad()
        logits = model(data.tokens[indices])
        cross_entropy(logits.flatten(0, 1), data.targets[indices].flatten(), ignore_index=-100).backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_batch_without_any_token_changes_nothing(command, tmp_path, world_size):
    """ACC-01: no valid token at all gives a zero gradient, and no NaN."""
    config = write_config(
        tmp_path,
        model={"type": "bigrams"},
        dataset={"train": {"type": "sequences", "length": 10}},  # sample 0 has no token
        objective={"type": "summed_tokens"},
        metrics={},
        sampler={"type": "sequential"},
        train={"epochs": 2, "global_batch_size": 1, "log_every": "1 step"},
        optimizer={"type": "sgd", "lr": 1.0},
        hooks={"checkpoint": {"every": "1 step", "keep_last": 20}},
    )
    folder = trained(command, tmp_path, world_size, config)
    tables = {step: weights_of(folder, f"step-{step:06d}")["table.weight"] for step in (10, 11, 12)}
    assert torch.equal(tables[10], tables[11])  # step 11 is sample 0 again
    assert not torch.equal(tables[11], tables[12])
    assert torch.isfinite(tables[12]).all()


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_sample_is_read_once_an_epoch(command, tmp_path, world_size, workers):
    """SMP-01, SMP-02 and MET-02: training and evaluation, set_epoch before, in order, on every rank."""
    for name in ("train", "eval"):
        (tmp_path / name).mkdir()
    config = write_config(
        tmp_path,
        dataset={
            "train": {"type": "recorded", "length": 37, "folder": str(tmp_path / "train")},
            "eval": {"type": "recorded", "length": 11, "folder": str(tmp_path / "eval")},
        },
        loader={"workers": workers},
    )
    trained(command, tmp_path, world_size, config)
    for name, length in (("train", 37), ("eval", 11)):
        seen: Counter[tuple[int, int]] = Counter()
        for path in (tmp_path / name).glob("*.jsonl"):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            seen.update((row["epoch"], row["index"]) for row in rows if "index" in row)
            if not workers:
                assert [row["set_epoch"] for row in rows if "set_epoch" in row] == [0, 1, 2]
        assert seen == {(epoch, index): 1 for epoch in range(3) for index in range(length)}


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_sample_looks_like_depends_on_seed_epoch_and_index_alone(command, tmp_path, workers):
    """SMP-05: draws of torch, numpy and random, at any number of ranks and workers."""
    draws = {}
    for world_size in (1, 2):
        folder = tmp_path / str(world_size)
        folder.mkdir()
        config = write_config(
            tmp_path,
            dataset={"train": {"type": "recorded", "length": 12, "folder": str(folder), "draws": True}},
            metrics={},
            loader={"workers": workers if world_size == 2 else 0},
        )
        trained(command, folder, world_size, config)
        rows = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
        draws[world_size] = {(row["epoch"], row["index"]): row["draws"] for row in rows if "index" in row}
    assert draws[1] == draws[2]
    assert len({tuple(draw) for draw in draws[1].values()}) == 36


def test_ranks_draw_different_dropout(command, tmp_path):
    """SMP-06: the masks of every rank and step; equal with the config key, and the same when run again."""
    masks = []
    for number, same in enumerate([False, False, True]):
        (tmp_path / str(number)).mkdir()
        config = recorded_config(tmp_path / str(number), train__same_rank_seeds=same)
        rows = record(trained(command, tmp_path / str(number), 2, config))
        masks.append([[rows[step, rank]["masks"] for step in range(1, 16)] for rank in (0, 1)])
    apart, again, equal = masks
    assert apart == again
    assert not any(one == other for one, other in zip(*apart, strict=True))
    assert equal[0] == equal[1]


def test_ranks_start_with_equal_parameters(command, tmp_path):
    """SMP-06: whatever a model draws when it is built, and though the ranks' training draws differ."""
    components = [str(PARTS), str(PARTS.with_name("statistics_parts.py"))]
    config = write_config(tmp_path, components=components, train__epochs=1, hooks={"first_weights": {}})
    folder = trained(command, tmp_path, 3, config)
    first = [(folder / f"first-{rank}.json").read_text() for rank in range(3)]
    assert first[0] == first[1] == first[2]


def test_an_evaluation_is_that_of_the_model_in_evaluation_mode(command, tmp_path):
    """The logged values are those of plain torch: no dropout, running statistics, every sample once."""
    config = write_config(
        tmp_path,
        model={"type": "net", "dropout": 0.5, "batch_norm": True},
        hooks={"checkpoint": {"every": "1 epoch"}},
    )
    folder = trained(command, tmp_path, 2, config)
    parts = load_parts(PARTS)
    model = parts.Net(dropout=0.5, batch_norm=True).eval()
    model.load_state_dict(weights_of(folder))  # strictly: CKP-15, the bare model's names
    points = parts.Points(23)
    with torch.no_grad():
        logits = model(points.inputs)
    row = [row for row in rows_of(folder) if "eval/loss" in row][-1]
    loss = cross_entropy(logits.double(), points.labels).item()
    assert row["eval/loss"] == pytest.approx(loss, abs=1e-6)
    assert row["eval/accuracy"] == (logits.argmax(1) == points.labels).sum().item() / 23


def test_evaluating_and_logging_do_not_change_training(command, tmp_path):
    """CKP-05: with evaluation every step, every epoch and never, the parameters are the same bits."""
    results = []
    for number, (evaluate, log) in enumerate(
        [("1 step", "1 step"), ("1 epoch", "7 steps"), ("never", "never")]
    ):
        (tmp_path / str(number)).mkdir()
        config = write_config(
            tmp_path,
            model={"type": "net", "dropout": 0.3, "batch_norm": True},
            dataset__eval={"type": "jittered", "length": 7},
            loader={"sample_seeds": False},  # so that the evaluation data draw from the global generators
            train__evaluate_every=evaluate,
            train__log_every=log,
            distributed__buffers="mean",
            hooks={"checkpoint": {"every": "1 epoch"}},
        )
        results.append(weights_of(trained(command, tmp_path / str(number), 2, config)))
    for other in results[1:]:
        assert_close(results[0], other, 0)


def test_a_scheduler_by_epochs_and_one_by_a_metric(command, tmp_path):
    """CKP-14: stepped at epochs' ends, or after each evaluation with the value it monitors."""
    by_epoch = write_config(tmp_path, scheduler={"type": "step_lr", "step_size": 1, "interval": "epoch"})
    rows = rows_of(trained(command, tmp_path, 2, by_epoch))
    assert [row["lr"] for row in rows if "lr" in row] == pytest.approx([0.1] * 5 + [0.01] * 5 + [0.001] * 5)
    (tmp_path / "metric").mkdir()
    by_metric = write_config(
        tmp_path,
        optimizer={"type": "sgd", "lr": 1e-9},  # nothing gets better
        scheduler={
            "type": "reduce_lr_on_plateau",
            "monitor": "eval/accuracy",
            "mode": "max",
            "patience": 0,
            "eps": 0.0,
        },
    )
    rows = rows_of(trained(command, tmp_path / "metric", 2, by_metric))
    assert [row["lr"] for row in rows if "lr" in row] == pytest.approx([1e-9] * 10 + [1e-10] * 5)


def test_a_compiled_run_saves_the_bare_models_names(command, tmp_path, count):
    """CKP-15: compiling model and objective changes neither the names nor, but for rounding, the result."""
    results = {}
    for compiled in (False, True):
        (tmp_path / str(compiled)).mkdir()
        config = write_config(
            tmp_path, train__compile=compiled, train__epochs=1, hooks={"checkpoint": {"every": "1 epoch"}}
        )
        results[compiled] = weights_of(trained(command, tmp_path / str(compiled), count(1, 2), config))
    assert_close(results[False], results[True], 1e-5)
