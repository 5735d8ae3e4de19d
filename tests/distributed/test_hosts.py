"""Hosts without a shared file system: the newest checkpoint is found wherever it is, and its host leads."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from runs_of import only_run, record_of, rows_of, write_config

CHECKPOINT = {"checkpoint": {"every": "2 steps", "keep_last": 3}}


def run_on(hosts: list[str], arguments: list[str]) -> None:
    """The command on the host of this rank: a folder of its own, and one rank in it."""
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = "0", "1"
    os.chdir(hosts[int(os.environ["RANK"])])
    sys.argv = ["pipeline", "run", *arguments]
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)


@pytest.fixture
def hosts(tmp_path):
    """Two empty hosts."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.fixture
def on_hosts(rank_server):
    """``on_hosts(hosts, arguments)``: exit statuses and standard error, by launcher's rank."""

    def run(hosts: list[Path], arguments: list[object]) -> tuple[list[int], list[str]]:
        with closing(
            rank_server.spawn(len(hosts), run_on, [str(host) for host in hosts], [str(a) for a in arguments])
        ) as job:
            return job.wait(), [job.stderr(rank) for rank in range(len(hosts))]

    return run


def broken_at(tmp_path, step):
    return write_config(tmp_path, hooks={"thrower": {"step": step}, **CHECKPOINT})


def test_the_host_with_the_newest_checkpoint_leads(on_hosts, command, hosts, tmp_path):
    """Rank 0's own host has nothing, or something older: the run goes on where its newest state is."""
    a, b = hosts
    statuses, _ = on_hosts([a, b], [broken_at(tmp_path, 5)])
    assert statuses == [1, 1]
    shutil.copytree(a / "runs", b / "runs")  # an older copy: checkpoints up to step 4
    folder = only_run(a / "runs")
    statuses, _ = on_hosts([a, b], [broken_at(tmp_path, 9), "--resume"])
    assert statuses == [1, 1] and (folder / "checkpoints" / "step-000008").is_dir()
    before = (only_run(b / "runs") / "run.json").read_bytes()
    config = write_config(tmp_path, hooks=CHECKPOINT)
    statuses, errors = on_hosts([b, a], [config, "--resume"])
    assert statuses == [0, 0], errors
    assert f"in {folder}: its newest checkpoint is of step 8. Rank 1 there leads" in errors[0]
    assert "from step-000008" in errors[1]
    assert record_of(folder)["status"] == "completed"
    assert [attempt["first_step"] for attempt in record_of(folder)["attempts"]] == [1, 5, 9]
    assert (only_run(b / "runs") / "run.json").read_bytes() == before  # nothing is written elsewhere
    whole = command(2, ["run", config, "--runs-dir", tmp_path / "whole"])
    assert whole.wait() == [0, 0], whole.report()
    assert rows_of(folder) == rows_of(only_run(tmp_path / "whole"))


def test_where_only_an_older_checkpoint_is_in_reach_the_repeated_steps_are_said(on_hosts, hosts, tmp_path):
    """The newest are damaged on their host, another has older ones: it leads, and says what is repeated."""
    a, b = hosts
    assert on_hosts([a, b], [broken_at(tmp_path, 5)])[0] == [1, 1]
    shutil.copytree(a / "runs", b / "runs")
    assert on_hosts([a, b], [broken_at(tmp_path, 9), "--resume"])[0] == [1, 1]
    for file in (only_run(a / "runs") / "checkpoints").glob("step-*/state.pt"):
        file.write_bytes(b"rot")
    statuses, errors = on_hosts([a, b], [write_config(tmp_path, hooks=CHECKPOINT), "--resume"])
    assert statuses == [0, 0], errors
    assert "steps 5 to 9 are repeated" in errors[1] and "from step-000004" in errors[1]
    steps = [row["step"] for row in rows_of(only_run(b / "runs")) if "train/loss" in row]
    assert steps == list(range(1, 16))


@pytest.mark.soak
def test_a_run_that_no_host_has_is_not_begun_anew_by_its_own_launcher(torchrun, hosts, tmp_path):
    """A restarted group whose run is on a host that is gone stops: it does not silently start over."""
    config = write_config(tmp_path, hooks={"once_killed_and_lost": {"step": 3}})
    job = torchrun(2, ["run", config, "--runs-dir", tmp_path / "runs"], options=["--max-restarts", "1"])
    assert job.wait() == 1, job.output()
    assert "is not within reach: it was in" in job.output() and "to start over" in job.output()
    assert not list((tmp_path / "runs").iterdir())


def test_a_new_run_begins_on_rank_0_where_no_host_has_any(on_hosts, hosts, tmp_path):
    a, b = hosts
    statuses, errors = on_hosts([a, b], [write_config(tmp_path), "--resume"])
    assert statuses == [0, 0] and "no run of this experiment in runs: a new one begins" in errors[0]
    assert only_run(a / "runs") and not (b / "runs").exists()
