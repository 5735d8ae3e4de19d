"""evaluate, predict and the library's run under failures: who is blamed, what is left, what can go on."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing

import pytest

import pipeline
from runs_of import PARTS, only_run, record_of, write_config

PROMPTLY = 30.0  # seconds on a busy machine, against a timeout of 10 minutes


@pytest.fixture(scope="module")
def trapped(rank_server, tmp_path_factory):
    """A finished run whose parts have traps (traps.py)."""
    folder = tmp_path_factory.mktemp("trapped")
    config = write_config(
        folder,
        components=[str(PARTS), str(PARTS.with_name("traps.py"))],
        model={"type": "trapped"},
        dataset={
            "train": {"type": "trapped", "name": "train"},
            "eval": {"type": "trapped", "name": "eval", "length": 33},
        },
        objective={"type": "trapped"},
        metrics={"trapped": {}},
        hooks={"checkpoint": {"every": "1 epoch"}},
        train={"epochs": 1, "global_batch_size": 8},
        distributed={"threads": 1, "timeout": "10 min"},
    )
    with closing(rank_server.command(2, ["run", config, "--runs-dir", folder / "runs"])) as job:
        assert job.wait() == [0, 0], job.report()
    return only_run(folder / "runs")


def arguments_of(verb, run, folder):
    options = ["--dataset", "eval", "-o", folder / "out" / "file.safetensors"] if verb == "predict" else []
    (folder / "out").mkdir()
    return [verb, run, *options]


def files_of(run):
    return {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


FAILURES = [
    ("evaluate", "eval.read", "two", "dataset.eval"),
    ("predict", "model.evaluate", "exit", "model"),
    ("evaluate", "metric.compute", "unspeakable", "metrics.trapped"),
    ("predict", "eval.collate", "memory", "dataset.eval"),
    ("evaluate", "objective.call", "interrupt", "objective"),
    ("predict", "eval.init", "unpicklable", "dataset.eval"),
    ("evaluate", "metric.update", "outside", "metrics.trapped"),
    ("predict", "objective.init", "lines", "objective"),
    ("evaluate", "model.init", "stop", "model"),
]


def test_one_rank_raises_in_evaluate_or_predict(command, trapped, tmp_path, count):
    """Every process exits 1 by itself, one report says who, and neither the run nor a file is touched."""
    before = files_of(trapped)
    for number, (verb, place, error, key) in enumerate(FAILURES[: count(3, len(FAILURES))]):
        folder, rank = tmp_path / str(number), number % 2
        folder.mkdir()
        trap = {"TRAP_PLACE": place, "TRAP_ERROR": error, "TRAP_RANK": str(rank)}
        errors = {"TORCHELASTIC_ERROR_FILE": str(folder / "error.json")}
        arguments = arguments_of(verb, trapped, folder)
        job = command(2, arguments, env=trap | errors, end_together=False)
        assert job.wait(timeout=PROMPTLY) == [1, 1], job.report()
        text = job.stderr(0) + job.stderr(1)
        last = job.stderr(rank).splitlines()[-1]
        assert [line for line in text.splitlines() if " failed in " in line] == [last], text
        assert last.startswith(f"rank {rank} on ") and f"({key}, " in last
        assert (folder / "error.json").is_file() and not list((folder / "out").iterdir())
        assert not job.stdout(0) and not job.stdout(1)
    assert files_of(trapped) == before


@pytest.mark.parametrize(
    ("verb", "killed", "number"),
    [("evaluate", 1, signal.SIGKILL), ("predict", 0, signal.SIGKILL), ("predict", 1, signal.SIGTERM)],
)
def test_a_rank_of_evaluate_or_predict_is_killed(command, trapped, tmp_path, verb, killed, number):
    """The other one says so and ends; the run's record stays, for the run has not failed."""
    before = files_of(trapped)
    slow = {"TRAP_PLACE": "eval.read", "TRAP_ERROR": "sleep", "TRAP_RANK": "1"}
    job = command(2, arguments_of(verb, trapped, tmp_path), env=slow, end_together=False)
    deadline = time.monotonic() + PROMPTLY
    while "springing eval.read" not in job.stderr(1):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.01)
    job.kill(killed, number)
    statuses = job.wait(timeout=PROMPTLY)
    assert statuses[killed] == -number and statuses[1 - killed] == 1, job.report()
    assert f"error: rank {killed} on " in job.stderr(1 - killed), job.report()
    assert "RankLost" in job.stderr(1 - killed)
    assert not list((tmp_path / "out").iterdir()) and files_of(trapped) == before


def twice(config, runs):
    """What two runs in one process have ended with."""
    records = [pipeline.run(config, runs_dir=runs) for _ in range(2)]
    return [(record.status, record.steps, record.metrics) for record in records]


@pytest.mark.parametrize("world_size", [1, 2])
def test_the_library_runs_twice_in_one_process(ranks, tmp_path, world_size):
    """Each is a run of its own, with the same numbers; the second finds nothing of the first in its way."""
    config = write_config(tmp_path, hooks={"checkpoint": {"every": "1 epoch"}, "journal": {}})
    for first, second in ranks(world_size, twice, config, tmp_path / "runs"):
        assert first == second and first[0] == "completed" and first[1] == 15
    assert len([path for path in (tmp_path / "runs").iterdir() if path.is_dir()]) == 2


def again_after_a_failure(config, runs):
    """A run that fails, and then one that does not, in one process."""
    os.environ |= {"TRAP_PLACE": "hook.on_step_end", "TRAP_ERROR": "value", "TRAP_RANK": "0", "RANK": "0"}
    try:
        pipeline.run(config, runs_dir=runs / "first")
    except pipeline.RunError as error:
        failed = type(error.__cause__).__name__
    return failed, pipeline.run(config, runs_dir=runs / "second").status


def test_the_library_runs_again_after_a_failure(ranks, tmp_path):
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(PARTS.with_name("traps.py"))],
        hooks={"trapped": {}, "checkpoint": {"every": "1 epoch"}},
        train__epochs=1,
    )
    assert ranks(1, again_after_a_failure, config, tmp_path) == [("ValueError", "completed")]
    assert record_of(only_run(tmp_path / "first"))["status"] == "failed"
