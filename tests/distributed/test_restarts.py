"""LCH-03: groups that torchrun starts again, with the same ranks or with fewer and more."""

from __future__ import annotations

import random
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby

import pytest

from harness import Torchrun
from runs_of import only_run, record_of, rows_of, write_config

QUICKLY = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"


@pytest.mark.soak
def test_a_rank_killed_at_random_steps(torchrun, command, tmp_path, count):
    """LCH-03: all go on from one checkpoint, or the beginning; each step once, as if nothing had been."""
    chance = random.Random(7)
    hooks = {"checkpoint": {"every": "2 steps"}}
    whole = command(2, ["run", write_config(tmp_path, hooks=hooks), "--runs-dir", tmp_path / "whole"])
    assert whole.wait() == [0, 0], whole.report()
    for attempt in range(count(1, 10)):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        steps = [1, *sorted(chance.sample(range(3, 15), count(1, 2)))]
        ranks = [chance.choice([0, 1]) for _ in steps]
        config = write_config(folder, hooks={"often_killed": {"steps": steps, "by": ranks}, **hooks})
        line = ["run", config, "--runs-dir", folder / "runs", "--resume"]
        job = torchrun(2, line, options=["--max-restarts", "3"])
        assert job.wait() == 0, job.output()
        run = only_run(folder / "runs")
        assert rows_of(run) == rows_of(only_run(tmp_path / "whole"))
        attempts = record_of(run)["attempts"]
        assert len(attempts) == len(steps) + 1 and attempts[-1]["status"] == "completed"
        assert "from its beginning" in job.output()  # the first is killed before there is a checkpoint
        for killed, after in zip(steps, attempts[1:], strict=True):
            assert killed - 3 <= after["first_step"] <= killed + 1


def test_a_rank_that_kills_itself_once(torchrun, tmp_path):
    """LCH-03: two restarts allowed, rank 1 kills itself at step 4, and a checkpoint every 2 steps."""
    config = write_config(tmp_path, hooks={"once_killed": {"step": 4}, "checkpoint": {"every": "2 steps"}})
    line = ["run", config, "--runs-dir", tmp_path / "runs"]
    job = torchrun(2, line, options=["--max-restarts", "2"])
    assert job.wait() == 0, job.output()
    run = only_run(tmp_path / "runs")
    assert [row["step"] for row in rows_of(run) if "train/loss" in row] == list(range(1, 16))
    first, second = record_of(run)["attempts"]
    assert (first["status"], second["status"]) == ("failed", "completed")
    begun = second["first_step"] - 1  # that of step 4 may have been complete or not
    assert begun in (2, 4) and job.output().count(f"from step-{begun:06d}") == 1, job.output()


@pytest.fixture
def node(tmp_path) -> Iterator:
    """``node(name, line)``: one launcher of a group of one or two; the first serves the rendezvous."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ExitStack() as stack:

        def start(name, line, *, hosts):
            rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "e"]
            conf = ["--rdzv-conf", f"is_host={int(hosts)},{QUICKLY}"]
            shape = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3"]
            launcher = [sys.executable, "-m", "torch.distributed.run", *shape, *rendezvous, *conf]
            command = [*launcher, "-m", "pipeline", *map(str, line)]
            environ = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
            return stack.enter_context(Torchrun(command, tmp_path / name, environ, None))

        yield start


def until(condition, *jobs):
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline, "\n=====\n".join(job.output() for job in jobs)
        time.sleep(0.05)


@pytest.mark.soak
def test_a_node_leaves_and_comes_back(node, command, tmp_path):
    """Elastic --nnodes 1:2: one experiment with two ranks, one, and two again; every step once.

    Then the node with the rendezvous is lost: the job ends, and can be resumed.
    """
    hooks = {"slow": {"seconds": 0.05}, "enough": {}, "checkpoint": {"every": "5 steps"}}
    config = write_config(tmp_path, train__epochs=None, train__steps=100_000, hooks=hooks)
    line = ["run", config, "--runs-dir", tmp_path / "runs", "--resume"]

    def goes_on(attempt, world_size):
        """Whether this attempt, or one after it, has saved a checkpoint of its own, with so many ranks."""
        for file in (tmp_path / "runs").glob("[!.]*/run.json"):  # not one that is still being made
            attempts = record_of(file.parent)["attempts"]
            names = [path.name for path in file.parent.glob("checkpoints/step-*")]
            saved = max(names, default="") > f"step-{attempts[-1]['first_step'] + 5:06d}"
            return len(attempts) > attempt and attempts[-1]["world_size"] == world_size and saved
        return False

    first = node("first", line, hosts=True)
    second = node("second", line, hosts=False)
    until(lambda: goes_on(0, 2), first, second)
    second.close()
    until(lambda: goes_on(1, 1), first, second)
    third = node("third", line, hosts=False)
    until(lambda: goes_on(2, 2), first, third)
    first.close()
    assert third.wait() != 0, third.output()
    run = only_run(tmp_path / "runs")
    (run / "enough").touch()
    last = command(1, line, launcher=False)
    assert last.wait() == [0], last.report()
    record = record_of(run)
    assert record["status"] == "completed" and record["reason"] == "enough"
    steps = [row["step"] for row in rows_of(run) if "train/loss" in row]
    assert steps == list(range(1, record["steps"] + 1))
    sizes = [attempt["world_size"] for attempt in record["attempts"]]
    assert [size for size, _ in groupby(sizes)] == [2, 1, 2, 1]
