"""Ctrl-C and SIGTERM: all ranks stop after the same step, with one checkpoint, and exit 75."""

from __future__ import annotations

import signal
import time

import pytest
import torch

from runs_of import only_run, record_of, rows_of, weights_of, write_config

SLOW = {"slow": {"seconds": 0.02}, "journal": {}}


def begun(job):
    deadline = time.monotonic() + 60
    while "first step done" not in job.stderr(0):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.005)


@pytest.mark.parametrize(("world_size", "to"), [(1, [0]), (2, [0]), (2, [1]), (3, [2]), (3, [0, 1, 2])])
def test_a_signal_to_any_rank_stops_all_after_one_step(command, tmp_path, world_size, to):
    """LCH-02: to one rank, to another, to all; then the run goes on exactly."""
    config = write_config(tmp_path, train__epochs=8, hooks=SLOW)
    runs = ["--runs-dir", tmp_path / "runs"]
    job = command(world_size, ["run", config, *runs])
    begun(job)
    for rank in to:
        job.kill(rank, signal.SIGTERM)
    assert job.wait(timeout=30) == [75] * world_size, job.report()
    folder = only_run(tmp_path / "runs")
    record = record_of(folder)
    (checkpoint,) = (folder / "checkpoints").glob("step-*")
    assert checkpoint.name == f"step-{record['steps']:06d}"
    assert record["status"] == "stopped" and 1 <= record["steps"] < 40
    ends = {(folder / f"journal-{rank}.txt").read_text().splitlines()[-1] for rank in range(world_size)}
    assert len(ends) == 1  # every rank's last call is of the same step
    job = command(world_size, ["run", config, *runs, "--resume"])
    assert job.wait() == [0] * world_size, job.report()
    whole = command(world_size, ["run", config, "--runs-dir", tmp_path / "whole"])
    assert whole.wait() == [0] * world_size
    assert rows_of(folder) == rows_of(only_run(tmp_path / "whole"))


def test_before_the_first_step_there_is_no_checkpoint(command, tmp_path):
    """The run is marked as stopped, and begins anew on resume."""
    config = write_config(tmp_path, model={"type": "slow_net"}, hooks={})
    runs = ["--runs-dir", tmp_path / "runs"]
    job = command(1, ["run", config, *runs], launcher=False)
    while "building slowly" not in job.stderr(0):
        time.sleep(0.01)
    job.kill(0, signal.SIGINT)
    assert job.wait(timeout=30) == [75], job.report()
    folder = only_run(tmp_path / "runs")
    assert record_of(folder)["status"] == "stopped"
    assert not (folder / "checkpoints").exists()


def test_a_second_signal_ends_at_once(command, tmp_path):
    config = write_config(tmp_path, hooks={"slow": {"seconds": 60.0}})
    job = command(1, ["run", config, "--runs-dir", tmp_path / "runs"], launcher=False)
    begun(job)
    job.kill(0, signal.SIGTERM)
    time.sleep(1.2)  # before, it would be the same request, delivered twice
    job.kill(0, signal.SIGTERM)
    assert job.wait(timeout=10) == [75], job.report()
    assert not (only_run(tmp_path / "runs") / "checkpoints").exists()


def test_stopped_at_two_points_equals_never_stopped(command, tmp_path):
    config = write_config(
        tmp_path,
        model={"type": "net", "dropout": 0.3},
        train__epochs=8,
        hooks=SLOW | {"checkpoint": {"every": "1 epoch"}},
    )
    runs = ["--runs-dir", tmp_path / "runs"]
    for _ in range(2):
        job = command(2, ["run", config, *runs, "--resume"])
        begun_again(job)
        job.kill(1, signal.SIGINT)
        assert job.wait(timeout=30) == [75, 75], job.report()
    assert command(2, ["run", config, *runs, "--resume"]).wait() == [0, 0]
    assert command(2, ["run", config, "--runs-dir", tmp_path / "whole"]).wait() == [0, 0]
    left, right = weights_of(only_run(tmp_path / "runs")), weights_of(only_run(tmp_path / "whole"))
    assert all(torch.equal(left[name], right[name]) for name in left)


def begun_again(job):
    """A resumed run says where it goes on; a few steps later is as good a moment as any."""
    deadline = time.monotonic() + 60
    while "first step done" not in job.stderr(0) and "resuming" not in job.stderr(0):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.005)
    time.sleep(0.3)
