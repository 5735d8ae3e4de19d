"""A loader's workers: a stop is not theirs to heed, what they cannot send is told, none outlives its rank."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from runs_of import PARTS, only_run, record_of, write_config

PROMPTLY = 30.0  # seconds; a hang is what it must not be


def config_of(folder, dataset=None, **changes):
    train = {"type": "in_worker", "length": 64} | (dataset or {})
    changes = {"loader": {"workers": 1}, "metrics": {}, "train__epochs": 50} | changes
    parts = [str(PARTS), str(PARTS.with_name("worker_parts.py"))]
    return write_config(
        folder, components=parts, dataset={"train": train}, sampler={"type": "sequential"}, **changes
    )


def until(condition, job):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, job.output() if hasattr(job, "process") else job.report()
        time.sleep(0.01)


def living(folder):
    return [int(path.name) for path in folder.iterdir() if is_alive(int(path.name))]


def is_alive(pid):
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.soak
def test_torchruns_stop_reaches_the_workers_and_does_not_end_them(torchrun, tmp_path):
    """LCH-02 (c): torchrun signals the ranks' process groups, and so their workers."""
    config = config_of(tmp_path, hooks={"slow": {"seconds": 0.3}})
    job = torchrun(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    until(lambda: "first step done" in job.output(), job)
    job.kill(signal.SIGTERM)
    assert job.wait() != 0
    folder = only_run(tmp_path / "runs")
    record = record_of(folder)
    assert (record["status"], record["reason"]) == ("stopped", "SIGTERM"), job.output()
    assert [path.name for path in (folder / "checkpoints").glob("step-*")] == [f"step-{record['steps']:06d}"]
    assert "DataLoader worker" not in job.output()


@pytest.mark.parametrize(
    ("number", "start_method"), [(signal.SIGTERM, "fork"), (signal.SIGINT, "fork"), (signal.SIGINT, "spawn")]
)
def test_workers_leave_a_stop_to_their_rank(command, tmp_path, number, start_method):
    """Ctrl-C at a terminal reaches all of its processes; all of the workers end with the run."""
    (tmp_path / "pids").mkdir()
    config = config_of(
        tmp_path,
        {"pids": str(tmp_path / "pids")},
        loader={"workers": 2, "start_method": start_method},
        hooks={"slow": {"seconds": 0.1}},
    )
    job = command(1, ["run", config, "--runs-dir", tmp_path / "runs"], launcher=False)
    until(lambda: len(living(tmp_path / "pids")) == 2 and "first step done" in job.stderr(0), job)
    workers = living(tmp_path / "pids")
    assert workers
    for pid in (*workers, job.pids[0]):
        os.kill(pid, number)
    assert job.wait(timeout=PROMPTLY) == [75], job.report()
    assert record_of(only_run(tmp_path / "runs"))["reason"] == number.name
    assert living(tmp_path / "pids") == []


def spawned(pid):
    """Processes that import torch, or have done so, to become workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in command_line(child)]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended just now
        return b""


def test_a_stop_while_workers_start_does_not_end_them(command, tmp_path):
    """Importing torch takes them seconds, in which they have no handler yet."""
    config = config_of(
        tmp_path, loader={"workers": 1, "start_method": "spawn"}, hooks={"slow": {}}, train__epochs=1
    )
    job = command(1, ["run", config, "--runs-dir", tmp_path / "runs"], launcher=False)
    until(lambda: spawned(job.pids[0]), job)
    (worker,) = spawned(job.pids[0])
    while is_alive(worker) and "first step done" not in job.stderr(0):
        os.kill(worker, signal.SIGTERM)
        time.sleep(0.01)
    assert job.wait(timeout=PROMPTLY) == [0], job.report()


@pytest.mark.parametrize(
    "dataset", [{}, {"sleep": 60.0}, {"payload": 1 << 20}], ids=["idle", "reading", "sending"]
)
def test_no_worker_outlives_a_rank_that_is_killed(command, tmp_path, dataset):
    """Not even one in the middle of a read, or with a batch that nobody takes."""
    pids = tmp_path / "pids"
    pids.mkdir()
    config = config_of(
        tmp_path, {"pids": str(pids)} | dataset, loader={"workers": 2}, hooks={"slow": {"seconds": 60.0}}
    )
    job = command(1, ["run", config, "--runs-dir", tmp_path / "runs"], launcher=False)
    until(lambda: len(living(pids)) == 2, job)
    if "sleep" not in dataset:
        until(lambda: "first step done" in job.stderr(0), job)
    os.kill(job.pids[0], signal.SIGKILL)  # the harness would then kill the whole group: look before that
    deadline = time.monotonic() + 15
    while living(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert living(pids) == []


def test_a_worker_that_is_killed_while_it_sends(command, tmp_path):
    """Half of a batch is in the pipe: the rank must not wait for the other half."""
    pids = tmp_path / "pids"
    pids.mkdir()
    config = config_of(
        tmp_path,
        {"pids": str(pids), "payload": 1 << 20},
        loader={"workers": 2},
        hooks={"slow": {"seconds": 0.5}},
    )
    job = command(1, ["run", config, "--runs-dir", tmp_path / "runs"], launcher=False)
    until(lambda: len(living(pids)) == 2 and "first step done" in job.stderr(0), job)
    for pid in living(pids):
        os.kill(pid, signal.SIGKILL)
    assert job.wait(timeout=PROMPTLY) == [1], job.report()
    failure = record_of(only_run(tmp_path / "runs"))["failure"]
    assert "killed by signal: Killed" in failure["message"], failure


def fails(command, folder, world_size, dataset):
    config = config_of(folder, {"bad": 11} | dataset)
    job = command(world_size, ["run", config, "--runs-dir", folder / "runs"], launcher=world_size > 1)
    assert job.wait(timeout=PROMPTLY) == [1] * world_size, job.report()
    failure = record_of(only_run(folder / "runs"))["failure"]
    text = "".join(job.stderr(rank) for rank in range(world_size))
    assert failure["component"] == "dataset.train", text
    assert failure["rank"] == 11 % world_size
    assert "worker 0" in text and "InWorker" in text
    return text, failure


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lambda", "lambda"),
        ("reduce", "ValueError: this is not for pickling"),
        ("gradient", "requires_grad"),
    ],
)
def test_a_batch_that_cannot_be_sent(command, tmp_path, world_size, fault, said):
    """HNG-07: torch's queue would swallow the error, and the rank wait for ever."""
    _, failure = fails(command, tmp_path, world_size, {"fault": fault})
    assert failure["type"] == "ComponentError"
    assert "cannot be sent from a worker process" in failure["message"] and said in failure["message"]
    assert "11" in failure["message"] and "loader.workers = 0" in failure["message"]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("two", "TwoArguments: the pen broke in the middle"),
        ("forgetful", "Forgetful: the code was 77"),
        ("local", "Local: a class of no module"),
        ("exit", "SystemExit: leaving early"),
        ("stop", "StopIteration: out of samples"),
    ],
)
def test_an_exception_that_cannot_be_made_anew(command, tmp_path, world_size, fault, said):
    text, failure = fails(command, tmp_path, world_size, {"fault": fault})
    assert said in failure["message"], text
    assert "11" in failure["message"] and "worker 0" in failure["message"]
