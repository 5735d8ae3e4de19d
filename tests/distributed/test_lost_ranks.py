"""Promise 7: a rank that ends or stands still without a word is named by the others, in time."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from pipeline.runs.process import is_alive
from runs_of import PARTS, only_run, record_of, write_config

PROMPTLY = 30.0  # seconds on a busy machine, against a timeout of 5 minutes; 10 on a quiet one
ENDLESS = {"train__epochs": 1000}
SLEEPERS = [str(PARTS), str(PARTS.with_name("sleepers.py"))]


def until(condition, said):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.01)


def begun(command, tmp_path, world_size=2, hooks=None, **changes):
    config = write_config(tmp_path, **(ENDLESS | {"hooks": hooks or {"slow": {}}} | changes))
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"], end_together=False)
    until(lambda: "first step done" in job.stderr(0), job.report)
    return job


def children(pid):
    """The processes that a process has started, from any of its threads."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for text in lists for child in text.read_text().split()]


def everything(job):
    return "".join(job.stderr(rank) for rank in range(job.request.world_size))


@pytest.mark.parametrize(("world_size", "lost"), [(2, 1), (2, 0), (3, 2)])
def test_a_killed_rank_is_named_by_the_others(command, tmp_path, world_size, lost):
    """HNG-06: SIGKILL; a survivor tells and records which rank vanished, where, and hints at memory."""
    job = begun(command, tmp_path, world_size)
    job.kill(lost)
    statuses = job.wait(timeout=PROMPTLY)
    assert statuses == [-9 if rank == lost else 1 for rank in range(world_size)], job.report()
    failure = record_of(only_run(tmp_path / "runs"))["failure"]
    assert (failure["rank"], failure["type"]) == (lost, "RankLost")
    assert "out-of-memory" in failure["message"] and failure["step"] >= 1
    reports = [line for line in everything(job).splitlines() if " failed in " in line]
    assert len(reports) == 1 and reports[0].startswith(f"error: rank {lost} on "), job.report()
    assert "Traceback" not in everything(job)


@pytest.mark.soak
def test_torchrun_ends_the_others_and_the_record_still_names_the_lost_rank(torchrun, tmp_path):
    """HNG-06: the launcher asks the survivors to stop, which cannot agree with the dead."""
    config = write_config(tmp_path, **ENDLESS, hooks={"slow": {}, "once_killed": {"step": 5}})
    job = torchrun(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait(timeout=60) == 1
    record = record_of(only_run(tmp_path / "runs"))
    assert record["status"] == "failed"
    assert (record["failure"]["rank"], record["failure"]["type"]) == (1, "RankLost"), job.output()


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stopped_rank_is_warned_of_and_then_given_up(command, tmp_path, stopped):
    """A process under SIGSTOP holds every collective up; half of the timeout is its limit."""
    job = begun(command, tmp_path, distributed__timeout="5 min" if stopped else "20 s")
    os.kill(job.pids[stopped], signal.SIGSTOP)
    other = 1 - stopped
    log = only_run(tmp_path / "runs") / "logs" / f"rank-{other}.log"
    if stopped:
        until(lambda: "and is stopped (SIGSTOP)" in log.read_text(), job.report)
        os.kill(job.pids[stopped], signal.SIGCONT)  # no harm done
        assert job.statuses() == {}
        return
    until(lambda: other in job.statuses(), job.report)
    assert job.statuses()[other] == 1
    failure = record_of(only_run(tmp_path / "runs"))["failure"]
    assert failure["rank"] == stopped and "is stopped (SIGSTOP)" in failure["message"]


@pytest.mark.soak
def test_a_suspended_job_is_no_lost_rank(command, tmp_path):
    """All ranks are stopped for longer than a silent one is waited for, and one goes on before the other."""
    slow = {"slow": {"seconds": 0.2}}
    job = begun(command, tmp_path, hooks=slow, train__epochs=3, distributed__timeout="20 s")
    os.kill(job.pids[1], signal.SIGSTOP)
    time.sleep(2.5)  # rank 0 hears the last sign
    os.kill(job.pids[0], signal.SIGSTOP)
    time.sleep(8.5)  # with the above, more than half of the timeout
    os.kill(job.pids[0], signal.SIGCONT)
    time.sleep(1.5)  # rank 0 looks at rank 1 again
    os.kill(job.pids[1], signal.SIGCONT)
    assert job.wait() == [0, 0], job.report()


def test_waiting_ranks_say_for_whom(command, tmp_path):
    """HNG-05: a rank in long work holds the others up: no failure, and the log says who is where."""
    hooks = {"sleeper": {"seconds": 12, "step": 2}}
    config = write_config(tmp_path, components=SLEEPERS, train__epochs=1, hooks=hooks)
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0, 0], job.report()
    (line,) = [line for line in job.stderr(0).splitlines() if line.startswith("no step is done: ")]
    first, second = line.removeprefix("no step is done: ").split("; ")
    assert first.startswith("rank 1 on ") and "in hooks.sleeper after step 2 since 1" in first
    assert second.startswith("rank 0 on ") and "in hooks.sleeper" not in second


@pytest.mark.soak
def test_long_preparation_is_no_failure_and_a_real_overrun_says_who_kept_whom_waiting(command, tmp_path):
    """HNG-05: a dataset and then a gated hook take rank 0 longer than the timeout of a collective."""
    config = write_config(
        tmp_path,
        components=SLEEPERS,
        dataset__train={"type": "slow_to_build", "seconds": 7.0},
        hooks={"sleepy": {"seconds": 60.0}},
        distributed__timeout="6 s",
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"], end_together=False)
    assert job.wait(timeout=60) == [1, 1], job.report()
    failure = record_of(only_run(tmp_path / "runs"))["failure"]
    assert failure["step"] == 5, job.report()
    said, where = failure["message"].split(": ", maxsplit=1)
    assert 'longer than distributed.timeout = "6 s", which can be raised' in said
    first, second = where.split("; ")
    assert first.startswith("rank 0 on ") and "in hooks.sleepy after step 5 since" in first
    assert second.startswith("rank 1 on ") and "hooks.sleepy" not in second
    assert "Traceback" not in everything(job) and everything(job).count(" failed in ") == 1


def test_ranks_whose_launcher_is_killed_stop_with_a_checkpoint(torchrun, tmp_path):
    """torchrun's processes have sessions of their own, and loaders' workers too; its store ends with it."""
    config = write_config(tmp_path, **ENDLESS, hooks={"slow": {}}, loader={"workers": 1})
    job = torchrun(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    until(lambda: "first step done" in job.output(), job.output)
    ranks = children(job.process.pid)
    workers = [worker for rank in ranks for worker in children(rank)]
    assert len(ranks) == 2 and len(workers) >= 2
    job.kill(signal.SIGKILL)
    until(lambda: not any(map(is_alive, [*ranks, *workers])), job.output)
    folder = only_run(tmp_path / "runs")
    record = record_of(folder)
    assert record["status"] == "stopped", job.output()
    assert [path.name for path in (folder / "checkpoints").glob("step-*")] == [f"step-{record['steps']:06d}"]
