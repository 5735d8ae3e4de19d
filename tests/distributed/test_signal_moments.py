"""A stop signal at any moment: in training, evaluation, saving and start-up."""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from contextlib import closing

import pytest

from runs_of import PARTS, only_run, record_of, rows_of, write_config

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
EVALUATED = {
    "train": {"type": "points", "length": 40},
    "eval": {"type": "slow_points", "length": 23, "seconds": 0.004},
}


def begun(job, text="first step done", rank=0):
    deadline = time.monotonic() + 60
    while text not in job.stderr(rank):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.002)


def last_step(folder, rank):
    """The last step of which this rank's hooks were told."""
    return int(re.findall(r"step=(\d+)", (folder / f"journal-{rank}.txt").read_text())[-1])


def config_of(folder, **changes):
    return write_config(
        folder,
        dataset=EVALUATED,
        train__epochs=4,
        train__evaluate_every="2 steps",
        train__stop_signals=["TERM", "INT", "USR1"],
        hooks={"slow": {"seconds": 0.02}, "journal": {}, "checkpoint": {"every": "3 steps"}},
        **changes,
    )


@pytest.fixture(scope="module")
def whole(rank_server, tmp_path_factory):
    """The rows of the run that nobody stops."""
    folder = tmp_path_factory.mktemp("whole")
    with closing(rank_server.command(2, ["run", config_of(folder), "--runs-dir", folder / "runs"])) as job:
        assert job.wait() == [0, 0], job.report()
    return rows_of(only_run(folder / "runs"))


@pytest.mark.parametrize("to", [(0,), (1,), (0, 1)], ids=["rank 0", "rank 1", "all"])
def test_a_signal_at_a_random_moment(command, tmp_path, count, whole, to):
    """LCH-02, REQ-03: one checkpoint, known to all, of the same step; the run goes on to the same rows."""
    moments = random.Random(len(to) + to[0])
    for attempt in range(count(1, 20)):
        number = SIGNALS[attempt % 3]
        folder = tmp_path / str(attempt)
        folder.mkdir()
        line = ["run", config_of(folder), "--runs-dir", folder / "runs", "--resume"]
        job = command(2, line)
        begun(job)
        time.sleep(moments.uniform(0, 0.8))
        for rank in to:
            job.kill(rank, number)
        statuses = job.wait(timeout=30)
        run = only_run(folder / "runs")
        record = record_of(run)
        if statuses != [0, 0]:  # on a quick machine the run may have been over
            assert statuses == [75, 75], job.report()
            assert record["status"] == "stopped"
            newest = max(path.name for path in (run / "checkpoints").glob("step-*"))
            assert newest == f"step-{record['steps']:06d}"
            assert {last_step(run, rank) for rank in (0, 1)} <= {record["steps"]}, job.report()
            job = command(2, line)
            assert job.wait() == [0, 0], job.report()
        assert rows_of(run) == whole


@pytest.mark.parametrize(
    ("world_size", "to"),
    [(2, 1), pytest.param(1, 0, marks=pytest.mark.soak), pytest.param(2, 0, marks=pytest.mark.soak)],
)
def test_a_long_evaluation_is_left(command, tmp_path, world_size, to):
    """LCH-02: the run does not wait for its end; resumed, it evaluates that step, which hooks see once."""
    slow = EVALUATED | {"eval": {"type": "slow_points", "length": 40, "seconds": 1.5}}
    hooks = {"journal": {}, "checkpoint": {"every": "1 step"}, "slow": {"seconds": 0.0}}
    schedule = {"train__steps": 4, "train__epochs": None, "train__evaluate_every": "2 steps"}
    config = write_config(tmp_path, dataset=slow, hooks=hooks, **schedule)
    runs = ["--runs-dir", tmp_path / "runs"]
    job = command(world_size, ["run", config, *runs])
    begun(job)
    time.sleep(0.5)  # step 2 is done in no time, and its evaluation takes 30 s at the least
    asked = time.monotonic()
    job.kill(to, signal.SIGTERM)
    assert job.wait(timeout=60) == [75] * world_size, job.report()
    took = time.monotonic() - asked
    folder = only_run(tmp_path / "runs")
    assert took < 25, took  # one batch of at most 8 samples, and a loaded machine
    assert record_of(folder)["steps"] == 2
    assert [row["step"] for row in rows_of(folder) if "eval/loss" in row] == []
    quick = EVALUATED | {"eval": {"type": "slow_points", "length": 40, "seconds": 0.0}}
    config = write_config(tmp_path, dataset=quick, hooks=hooks, **schedule)
    job = command(world_size, ["run", config, *runs, "--resume", folder, "--accept-changes"])
    assert job.wait() == [0] * world_size, job.report()
    whole = command(world_size, ["run", config, "--runs-dir", tmp_path / "whole"])
    assert whole.wait() == [0] * world_size, whole.report()
    other = only_run(tmp_path / "whole")
    assert rows_of(folder) == rows_of(other)
    events = [
        [line for line in (run / "journal-0.txt").read_text().splitlines() if not line.startswith("run_")]
        for run in (folder, other)
    ]
    assert events[0] == events[1]


def test_a_signal_while_starting_up(command, tmp_path, count):
    """LCH-02: before the first step all ranks end with 75, and there is no checkpoint."""
    moments = random.Random(5)
    for attempt in range(count(1, 20)):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        line = ["run", config_of(folder), "--runs-dir", folder / "runs", "--resume"]
        job = command(2, line)
        time.sleep(moments.uniform(0.05, 0.6))
        for rank in ((0, 1), (0,), (1,))[attempt % 3]:
            job.kill(rank, SIGNALS[attempt % 2])
        statuses = job.wait(timeout=30)
        if "first step done" in job.stderr(0):
            continue  # it was quicker than the signal
        own = {-SIGNALS[attempt % 2], -signal.SIGTERM}  # before the handlers are there
        assert set(statuses) <= {75} | own, job.report()
        assert not list(folder.glob("runs/*/checkpoints/step-*"))


@pytest.mark.parametrize("stuck", [0, 1])
def test_a_rank_that_hears_no_signal_ends_with_the_others_before_the_first_step(command, tmp_path, stuck):
    """LCH-02: it may be joining the group with the rank that has just left, which it would wait for."""
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(PARTS.with_name("sleepers.py"))],
        dataset={"train": {"type": "stuck_in_c", "rank": stuck}},
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"], end_together=False)
    begun(job, "stuck in C", stuck)
    for rank in (0, 1):
        job.kill(rank, signal.SIGTERM)
    assert job.wait(timeout=30) == [75, 75], job.report()


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("when", ["import", "build"])
def test_a_signal_that_foreign_code_takes_for_a_fault_of_its_own_is_a_signal(
    command, tmp_path, world_size, when
):
    """LCH-02: no traceback of a schema, import or component that was interrupted; nothing has failed."""
    parts = shutil.copy(PARTS.with_name("disguises.py"), tmp_path)
    if when == "import":
        (tmp_path / "at_import").touch()
    config = write_config(tmp_path, components=[str(PARTS), parts], dataset={"train": {"type": "disguising"}})
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait(timeout=30) == [75] * world_size, job.report()
    assert job.stderr(0).splitlines()[-1] == "stopped by SIGTERM before the first step"
    assert not any("cannot be made" in job.stderr(rank) for rank in range(world_size)), job.report()
    if when == "build":
        assert record_of(only_run(tmp_path / "runs"))["status"] == "stopped"


def test_a_second_signal_ends_every_process_at_once(command, tmp_path):
    """LCH-02: at once, although the step would take a minute; the launcher ends the other rank."""
    config = write_config(tmp_path, hooks={"slow": {"seconds": 60.0}})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    begun(job)
    job.kill(1, signal.SIGTERM)
    time.sleep(1.2)
    job.kill(1, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while 1 not in job.statuses():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert job.statuses()[1] == 75


def test_one_request_delivered_twice_is_one(command, tmp_path):
    """Slurm signals the ranks and the launcher, which passes it on: the checkpoint is still written."""
    config = write_config(tmp_path, train__epochs=8, hooks={"slow": {"seconds": 0.3}})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    begun(job)
    for _ in range(2):
        for rank in (0, 1):
            job.kill(rank, signal.SIGTERM)
        time.sleep(0.1)
    assert job.wait(timeout=30) == [75, 75], job.report()
    assert list(only_run(tmp_path / "runs").glob("checkpoints/step-*"))
