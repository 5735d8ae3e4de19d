"""Promise 3: metrics are exact, one collective a report, and no other in a training step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runs_of import PARTS, only_run, rows_of, write_config

COMPONENTS = [str(PARTS), str(PARTS.with_name("gated_parts.py"))]

COUNTER = Path(__file__).parents[1] / "support" / "parts" / "counting.py"


def ran(command, tmp_path, world_size, config):
    runs = tmp_path / f"runs-{world_size}"
    job = command(world_size, ["run", config, "--runs-dir", runs])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(runs)


def counts(folder):
    """Collectives per phase of the run, on rank 0: {step or event: {collective: number}}."""
    lines = (folder / "collectives.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("metrics", [1, 9])
def test_one_collective_a_report_whatever_the_number_of_metrics(command, tmp_path, metrics):
    """Counted by replacing torch.distributed's functions: steps have none but DDP's own, reports one."""
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(COUNTER)],
        metrics={
            f"m{number}": {"type": "extremes" if number % 2 else "accuracy"} for number in range(metrics)
        },
        train={"epochs": 2, "global_batch_size": 8, "log_every": "5 steps"},
        hooks={"counting": {}},
    )
    rows = counts(ran(command, tmp_path, 2, config))
    by_step = {row["step"]: row["calls"] for row in rows}
    report = {"all_gather": 2}  # a row and an evaluation, at the ends of both epochs
    wishes = {"all_gather": 1}  # of the report's step, agreed on after the hook has counted
    start = {"all_gather": 1}  # what hooks ask for before the first step, agreed on once a run
    # The first step is where the ranks agree whether the objective counts its own weights.
    assert by_step == {0: start, 1: {"broadcast_object_list": 1}} | {
        step: {} if step % 5 else report for step in range(2, 11)
    } | {6: wishes}


def test_a_growing_state_costs_one_more_for_all_of_them(command, tmp_path):
    """Two medians and an accuracy: the fixed states in one collective, all growing ones in another."""
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(COUNTER)],
        metrics={"first": {"type": "median"}, "second": {"type": "median"}, "accuracy": {}},
        train={"epochs": 1, "global_batch_size": 8, "log_every": "never"},
        hooks={"counting": {}},
    )
    by_step = {row["step"]: row["calls"] for row in counts(ran(command, tmp_path, 2, config))}
    assert by_step[5] == {"all_gather": 1 + 2}  # the last row, then the evaluation; wishes come after


@pytest.mark.parametrize("length", [1, 2, 5, 7, 8, 9])
def test_metrics_are_those_of_one_process(command, tmp_path, length):
    """MET-02, MET-03, MET-05: counts, sums, extremes and a median, for shares of none, one and many."""
    config = write_config(
        tmp_path,
        dataset={"train": {"type": "points", "length": 8}, "eval": {"type": "points", "length": length}},
        metrics={"accuracy": {}, "median": {}, "extremes": {}},
        train={"epochs": 1, "global_batch_size": 8, "eval_batch_size": 3, "log_every": "never"},
    )
    one, two, three = (
        [row for row in rows_of(ran(command, tmp_path, size, config)) if "eval/loss" in row][-1]
        for size in (1, 2, 3)
    )
    for other in (two, three):
        assert other == pytest.approx(one, abs=1e-6)
        assert other["eval/accuracy"] == one["eval/accuracy"]
        assert other["eval/median"] == one["eval/median"]


def test_values_that_hooks_log_on_all_ranks_are_averaged_over_them(command, tmp_path):
    """The journal logs its rank at every step: the mean over 3 ranks is 1, in the row's own collective."""
    config = write_config(tmp_path, hooks={"journal": {}})
    rows = [row for row in rows_of(ran(command, tmp_path, 3, config)) if "train/loss" in row]
    assert [row["journal/rank"] for row in rows[1:]] == [1.0] * (len(rows) - 1)


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_value_that_is_logged_at_every_step_is_averaged_over_those_of_a_row(command, tmp_path, world_size):
    """The row of step 6 has what was logged at the ends of steps 3, 4 and 5, by every rank."""
    config = write_config(
        tmp_path, components=COMPONENTS, hooks={"log_steps": {}}, train__log_every="3 steps"
    )
    *rows, last = rows_of(ran(command, tmp_path, world_size, config))
    rows = [row for row in rows if "train/loss" in row]
    ranks = (world_size - 1) / 2
    assert [row["step and rank"] for row in rows] == [
        1.5 + ranks,
        *(step - 2 + ranks for step in (6, 9, 12, 15)),
    ]
    assert (last["step"], last["step and rank"]) == (15, 15 + ranks), "what came after the last loss"


@pytest.mark.parametrize(
    ("metric", "says"), [("drifting", "declared as torch.int64"), ("stateless", "declares no state")]
)
def test_a_metric_that_does_not_keep_what_it_declares_is_refused(command, tmp_path, metric, says):
    """MET-05: never a wrong number; a rank without samples could not even unpack it."""
    config = write_config(
        tmp_path, dataset__eval={"type": "points", "length": 1}, metrics={metric: {}}, train__epochs=1
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [1, 1]
    assert says in job.stderr(0) + job.stderr(1)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_torch_sampler_where_a_rank_has_no_share(command, tmp_path, batch):
    """SMP-08: the order is read by all ranks together, whoever has a sample."""
    config = write_config(
        tmp_path,
        dataset={"train": {"type": "points", "length": 1 if batch == 4 else 5}},
        metrics={},
        sampler={"type": "torchs_random"},
        train={"epochs": 2, "global_batch_size": batch},
    )
    ran(command, tmp_path, 2, config)


def test_a_metric_that_declares_nothing_is_refused_where_there_are_ranks(command, tmp_path):
    """MET-05: alone it works; with two ranks the error names the metric and its state."""
    config = write_config(tmp_path, metrics={"undeclared": {}})
    ran(command, tmp_path, 1, config)
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs-2"])
    assert job.wait() == [1, 1]
    text = job.stderr(0) + job.stderr(1)
    assert text.count("declares no reduction") == 1
    assert "undeclared" in text and "worst" in text
