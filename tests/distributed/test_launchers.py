"""What is about launchers: ports, threads, restarts, spawned workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from harness import Torchrun
from runs_of import BASE, PARTS, only_run, record_of, rows_of, write_config

WITH_WORKERS = [*BASE["components"], str(PARTS.with_name("worker_parts.py"))]


@pytest.mark.soak
def test_two_jobs_at_once_and_a_listener_on_29500(torchrun, tmp_path, count):
    """LCH-01, REQ-12: both launchers take a free port."""
    config = write_config(tmp_path, train__epochs=1)
    for attempt in range(count(1, 5)):
        both_complete(torchrun, config, tmp_path / str(attempt))


def both_complete(torchrun, config, folder):
    with socket.socket() as taken, ExitStack() as stack:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 29500))
        taken.listen()
        own = [sys.executable, "-m", "pipeline", "run", str(config), "--nproc", "2"]
        jobs = [
            torchrun(2, ["run", config, "--runs-dir", folder / "one"]),
            stack.enter_context(
                Torchrun([*own, "--runs-dir", str(folder / "two")], folder / "nproc", None, None)
            ),
        ]
        assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output() for job in jobs)
    assert rows_of(only_run(folder / "one")) == rows_of(only_run(folder / "two"))


def test_a_step_that_always_fails_ends_with_its_own_error(torchrun, tmp_path):
    """LCH-03: after the limit; every attempt is recorded."""
    config = write_config(tmp_path, hooks={"thrower": {"step": 4}, "checkpoint": {"every": "2 steps"}})
    job = torchrun(2, ["run", config, "--runs-dir", tmp_path / "runs"], options=["--max-restarts", "1"])
    assert job.wait() == 1
    assert job.output().count("ValueError: the hook broke on purpose") >= 2
    record = record_of(only_run(tmp_path / "runs"))
    assert record["failure"]["message"] == "the hook broke on purpose"
    assert [attempt["status"] for attempt in record["attempts"]] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("threads", "launcher", "environ", "told"),
    [
        ("auto", True, {}, "{share} threads each ({cores} cores / 2 local ranks)"),
        ("auto", True, {"OMP_NUM_THREADS": "3"}, "3 threads each (OMP_NUM_THREADS)"),
        (2, True, {"OMP_NUM_THREADS": "3"}, "2 threads each (distributed.threads)"),
        ("auto", False, {"OMP_NUM_THREADS": "1"}, "1 threads each (OMP_NUM_THREADS)"),
    ],
    ids=["a share", "the user's", "the config's", "the user's one"],
)
def test_threads_and_why_are_told_once(command, tmp_path, threads, launcher, environ, told):
    """LCH-06: torchrun's own OMP_NUM_THREADS=1 is nobody's wish."""
    config = write_config(tmp_path, train__epochs=1, distributed={"threads": threads})
    world_size = 2 if launcher else 1
    job = command(
        world_size, ["run", config, "--runs-dir", tmp_path / "runs"], env=environ, launcher=launcher
    )
    assert job.wait() == [0] * world_size, job.report()
    cores = len(os.sched_getaffinity(0))
    line = told.format(cores=cores, share=max(1, cores // 2))
    assert "".join(job.stderr(rank) for rank in range(world_size)).count(line) == 1, job.report()


def test_affinity_is_respected(tmp_path):
    """LCH-06: one core to use, one thread."""
    config = write_config(tmp_path, train__epochs=1, distributed={"threads": "auto"})
    environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    core = min(os.sched_getaffinity(0))
    line = ["taskset", "-c", str(core), sys.executable, "-m", "pipeline", "run", str(config)]
    done = subprocess.run(
        [*line, "--runs-dir", str(tmp_path / "runs")],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0 and "1 threads each (1 cores / 1 local ranks)" in done.stderr, done.stderr


def test_a_worker_has_one_thread(command, tmp_path):
    """LCH-06: as many as the rank has would be too many, with several workers each."""
    config = write_config(
        tmp_path,
        components=WITH_WORKERS,
        dataset={"train": {"type": "one_thread", "length": 16}},
        train__epochs=1,
        metrics={},
        loader={"workers": 1},
        distributed={"threads": 3},
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0, 0], job.report()


@pytest.mark.soak
def test_spawned_workers_give_what_forked_ones_give(command, tmp_path):
    """LCH-04: a dataset of a local file that looks a transform up by its name, and a collate by name."""
    names = {"type": "looks_up", "transform": "by_two", "collate": "in_double"}
    rows = []
    for method in ("fork", "spawn"):
        config = write_config(
            tmp_path,
            components=WITH_WORKERS,
            dataset={"train": {**names, "length": 40}, "eval": {**names, "length": 23}},
            train__epochs=1,
            loader={"workers": 1, "start_method": method},
        )
        job = command(2, ["run", config, "--runs-dir", tmp_path / method])
        assert job.wait() == [0, 0], job.report()
        rows.append(rows_of(only_run(tmp_path / method)))
    assert rows[0] == rows[1]


def test_a_dataset_that_no_spawned_worker_can_be_sent_is_named_before_training(command, tmp_path):
    """LCH-04: also that of an evaluation, whose workers start after an epoch; with the attribute."""
    config = write_config(
        tmp_path,
        components=WITH_WORKERS,
        dataset={
            "train": {"type": "points", "length": 40},
            "eval": {"type": "unsendable", "length": 8},
        },
        metrics={},
        loader={"workers": 1, "start_method": "spawn"},
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [1, 1], job.report()
    failure = record_of(only_run(tmp_path / "runs"))["failure"]
    assert (failure["component"], failure["step"]) == ("dataset.eval", 0)
    assert "Unsendable.transforms['crop']" in failure["message"]
    assert not (only_run(tmp_path / "runs") / "metrics.jsonl").exists()
