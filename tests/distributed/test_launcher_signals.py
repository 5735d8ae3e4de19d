"""Signals to a real launcher, or to one of its ranks while it has restarts left."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta

import pytest

from harness import Torchrun
from pipeline.cli.launch import launch
from runs_of import BASE, PARTS, only_run, record_of, rows_of, write_config

NUMBERS = (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM)
HANDLED = ["--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1", "--shutdown-timeout", "300"]


def config_of(folder):
    return write_config(
        folder,
        components=[*BASE["components"], str(PARTS.with_name("signalling.py"))],
        dataset={
            "train": {"type": "points", "length": 40},
            "eval": {"type": "slow_points", "length": 23, "seconds": 0.01},
        },
        train__evaluate_every="2 steps",
        train__stop_signals=["TERM", "INT", "USR1"],
        hooks={
            "signalling": {},
            "slow": {"seconds": 0.05},
            "journal": {},
            "checkpoint": {"every": "3 steps", "keep_last": 9},
        },
    )


@pytest.fixture(scope="module")
def whole(rank_server, tmp_path_factory):
    """The rows of the run that nobody stops."""
    folder = tmp_path_factory.mktemp("whole")
    with closing(rank_server.command(2, ["run", config_of(folder), "--runs-dir", folder / "runs"])) as job:
        assert job.wait() == [0, 0], job.report()
    return rows_of(only_run(folder / "runs"))


@pytest.fixture
def nproc() -> Iterator:
    """``nproc(arguments, folder)``: the command that starts its own two processes."""
    with ExitStack() as stack:
        program = [sys.executable, "-m", "pipeline"]
        yield lambda arguments, folder: stack.enter_context(
            Torchrun([*program, *map(str, arguments), "--nproc", "2"], folder, None, None)
        )


def until(text, job):
    deadline = time.monotonic() + 60
    while text not in job.output():
        assert time.monotonic() < deadline, job.output()
        time.sleep(0.01)


def goes_on(command, line, run, rows):
    """The stopped run has one checkpoint of its last step, known to all ranks, and goes on exactly."""
    record = record_of(run)
    assert record["status"] == "stopped"
    newest = max(path.name for path in (run / "checkpoints").glob("step-*"))
    assert newest == f"step-{record['steps']:06d}"
    assert len({(run / f"journal-{rank}.txt").read_text().splitlines()[-1] for rank in (0, 1)}) == 1
    job = command(2, line)
    assert job.wait() == [0, 0], job.report()
    assert rows_of(run) == rows


def test_a_signal_to_the_launcher_at_a_random_moment(torchrun, command, tmp_path, count, whole):
    """LCH-02 (c), REQ-03: SIGTERM, SIGINT and SIGUSR1, by the line of the documentation."""
    moments = random.Random(3)
    for attempt in range(count(1, 60)):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        line = ["run", config_of(folder), "--runs-dir", folder / "runs", "--resume"]
        job = torchrun(2, line, options=HANDLED)
        until("first step done", job)
        time.sleep(moments.uniform(0, 1.0))
        job.kill(NUMBERS[(attempt - 1) % 3])
        status = job.wait()
        run = only_run(folder / "runs")
        if record_of(run)["status"] == "completed":  # on a quick machine it may have been over
            continue
        assert status == 1, job.output()
        goes_on(command, line, run, whole)


def test_a_signal_to_the_launcher_while_it_starts(torchrun, command, tmp_path, count, whole):
    """LCH-02: whatever it has started by then ends, and the same line begins anew or goes on."""
    moments = random.Random(4)
    for attempt in range(count(1, 20)):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        line = ["run", config_of(folder), "--runs-dir", folder / "runs", "--resume"]
        job = torchrun(2, line, options=HANDLED)
        time.sleep(moments.uniform(1, 6))
        job.kill(NUMBERS[attempt % 3])
        assert job.wait() != 0 or "completed" in job.output()
        again = command(2, line)
        assert again.wait() == [0, 0], job.output() + again.report()
        assert rows_of(only_run(folder / "runs")) == whole


def test_the_own_launcher_leaves_with_75(nproc, command, tmp_path, count, whole):
    """LCH-02: also after SIGUSR1, by which torchrun's agent is killed unless told otherwise."""
    for number in NUMBERS[: count(1, 3)]:
        folder = tmp_path / number.name
        folder.mkdir()
        line = ["run", config_of(folder), "--runs-dir", folder / "runs", "--resume"]
        job = nproc(line, folder / "launcher")
        until("first step done", job)
        job.kill(number)
        assert job.wait() == 75, job.output()
        goes_on(command, line, only_run(folder / "runs"), whole)


@pytest.mark.soak
def test_the_own_launcher_tells_a_failure_after_a_signal(nproc, tmp_path):
    """LCH-02: the run was to stop, but a rank has failed at that: this is no run that stopped well."""
    line = ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs", "--set", "hooks.late_thrower={}"]
    job = nproc(line, tmp_path / "launcher")
    until("first step done", job)
    job.kill(signal.SIGTERM)
    assert job.wait() == 1, job.output()
    assert record_of(only_run(tmp_path / "runs"))["failure"]["message"] == "broken at the end"


def test_the_own_launcher_waits_for_the_checkpoint_as_long_as_ranks_for_each_other(monkeypatch):
    """torchrun's 30 s would be too short for a large one."""
    from torch.distributed.launcher import api

    configs = []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # torchrun would set it
    monkeypatch.setattr(api, "elastic_launch", lambda config, entrypoint: configs.append(config) or print)
    assert launch(2, ["run", "x.toml"], stop_signals=["TERM"], patience=timedelta(minutes=7)) == 0
    assert configs[0].shutdown_timeout == 420


@pytest.mark.soak
def test_a_restarted_group_does_not_begin_again_after_a_stop(torchrun, command, tmp_path, whole):
    """LCH-02, LCH-03: one rank is signalled; torchrun takes its 75 for a failure and starts all again."""
    line = ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs", "--resume"]
    job = torchrun(2, line, options=["--max-restarts", "1"], env={"SIGNAL": "step 1 15"})
    assert job.wait() == 1, job.output()
    assert job.output().count("a restarted group does not begin again") == 1, job.output()
    run = only_run(tmp_path / "runs")
    assert len(record_of(run)["attempts"]) == 1 and record_of(run)["steps"] in (4, 5)
    goes_on(command, line, run, whole)
