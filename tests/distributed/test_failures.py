"""Promises 4 and 7: one rank fails, every rank ends promptly, and the report says who."""

from __future__ import annotations

import json
import re
import time

import pytest

from runs_of import only_run, record_of, rows_of, write_config

PROMPTLY = 20.0  # seconds, against a timeout of 5 minutes; a hang is what it must not be


def fails(command, tmp_path, config, world_size=2):
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    statuses = job.wait(timeout=PROMPTLY)
    assert statuses == [1] * world_size, job.report()
    return job


def until(condition, job):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.01)


def everything(job, world_size=2):
    return "".join(job.stderr(rank) for rank in range(world_size))


@pytest.mark.parametrize("event", ["on_step_end", "on_evaluate_end", "on_epoch_end"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_a_hook_of_one_rank_that_raises_ends_all_ranks(command, tmp_path, event, world_size):
    """HNG-01 (c), CKP-13: the original traceback, once and last, with rank, component and config line."""
    config = write_config(tmp_path, hooks={"thrower": {"event": event}})
    job = fails(command, tmp_path, config, world_size)
    text = everything(job, world_size)
    assert text.count("ValueError: the hook broke on purpose") == 2  # the traceback's end, and the report
    assert 'raise ValueError("the hook broke on purpose")' in text
    last = job.stderr(0).splitlines()[-1]
    line = config.read_text().splitlines().index("[hooks.thrower]") + 1
    assert last.startswith("rank 0 on ") and f"hook 'thrower' (hooks.thrower, {config}:{line}:" in last
    log = (only_run(tmp_path / "runs") / "logs" / "rank-0.log").read_text()
    assert last in log
    assert re.search(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} rank 0 step [1-9]\d*: Traceback", log, re.M)
    record = record_of(only_run(tmp_path / "runs"))
    assert record["status"] == "failed"
    assert record["failure"]["component"] == "hooks.thrower"
    assert record["failure"]["rank"] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_cannot_be_read_on_one_rank(command, tmp_path, workers):
    """HNG-01 (a, b): the rank that read it is named, and the record is rank 0's all the same."""
    config = write_config(
        tmp_path,
        dataset={"train": {"type": "faulty", "length": 16, "bad": 11}},
        metrics={},
        sampler={"type": "sequential"},
        loader={"workers": workers},
    )
    job = fails(command, tmp_path, config)
    assert "sample 11 is broken" in job.stderr(1) and "while reading sample 11" in job.stderr(1)
    assert "dataset.train" in job.stderr(1).splitlines()[-1]
    assert "broken" not in job.stderr(0)
    failure = record_of(only_run(tmp_path / "runs"))["failure"]
    assert (failure["rank"], failure["type"], failure["component"]) == (1, "IndexError", "dataset.train")
    assert failure["step"] == 1


def test_torchruns_own_table_has_the_error(torchrun, tmp_path):
    """HNG-06: the launcher's error file is filled, so its summary names the rank and the exception."""
    config = write_config(
        tmp_path,
        dataset={"train": {"type": "faulty", "length": 16, "bad": 11}},
        metrics={},
        sampler={"type": "sequential"},
    )
    job = torchrun(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == 1
    text = job.output()
    assert "IndexError" in text and "rank      : 1" in text


def test_a_failed_run_is_resumed(command, tmp_path):
    """A run that failed goes on from its last checkpoint once the fault is gone."""
    config = write_config(tmp_path, hooks={"thrower": {"step": 7}, "checkpoint": {"every": "1 epoch"}})
    fails(command, tmp_path, config)
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs", "--resume", "--unset", "hooks.thrower"])
    assert job.wait() == [0, 0], job.report()
    folder = only_run(tmp_path / "runs")
    assert [row["step"] for row in rows_of(folder) if "train/loss" in row] == list(range(1, 16))
    assert [attempt["status"] for attempt in record_of(folder)["attempts"]] == ["failed", "completed"]
    superseded = (folder / "metrics.superseded.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"]["step"] for line in superseded] == [6, 7]


def test_a_rank_that_died_does_not_keep_the_others_from_stopping(command, tmp_path):
    """HNG-06: the launcher asks the others to stop, and the dead one cannot agree."""
    config = write_config(tmp_path, train__epochs=1000, hooks={"slow": {"seconds": 0.3}})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    until(lambda: "first step done" in job.stderr(0), job)
    job.kill(1)
    assert job.wait(timeout=PROMPTLY)[0] == 1, job.report()
