"""Trackers, as the real libraries read back what a run of two ranks has left, killed and resumed."""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
import sys

import pytest

from runs_of import only_run, record_of, rows_of, write_config

TRACKERS = {"csv": {}, "tensorboard": {}, "wandb": {"mode": "offline"}}
CHECKPOINT = {"checkpoint": {"every": "5 steps"}}

READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name("trials")
runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
print(json.dumps([{
    "id": run.info.run_id, "name": run.info.run_name, "status": run.info.status,
    "params": run.data.params, "tags": run.data.tags,
    "artifacts": sorted(one.path for one in client.list_artifacts(run.info.run_id)),
    "history": {
        name: [[point.step, point.value] for point in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    },
} for run in runs]))
"""

READ_WANDB = """
import json, sys
from pathlib import Path
from wandb.proto.wandb_internal_pb2 import Record

def records(data):  # blocks of 32 KiB as in LevelDB's log, after a header of 7 bytes
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        whole += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, last
            yield Record.FromString(whole)
            whole = b""

rows, config = [], {}
for path in sys.argv[1:]:
    for record in records(Path(path).read_bytes()):
        for one in record.run.config.update:
            config[one.key] = json.loads(one.value_json)
        if record.HasField("history"):
            items = record.history.item
            rows.append({one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in items})
print(json.dumps({"rows": rows, "config": config}))
"""


def read_by(script, *words):
    """What a script prints, run by an interpreter of its own: these libraries leave threads behind."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def scalars_of_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    names = events.Tags()["scalars"]
    return {name: [[one.step, one.value] for one in events.Scalars(name)] for name in names}


def measured(folder):
    """The curves that metrics.jsonl has."""
    curves = {}
    for row in rows_of(folder):
        for name, value in row.items():
            if name not in ("step", "epoch", "time"):
                curves.setdefault(name, []).append([row["step"], value])
    return curves


def test_a_tracker_has_each_step_once_under_one_id_after_a_kill(command, tmp_path):
    """TRK-01, TRK-02, REQ-02: log each step, save every 5, killed at 8, resumed to 10; opened by one rank."""
    store = f"sqlite:///{tmp_path}/mlflow.db"
    hooks = TRACKERS | CHECKPOINT | {"mlflow": {"tracking_uri": store, "experiment": "trials"}}
    config = write_config(
        tmp_path, train={"steps": 10, "global_batch_size": 8, "log_every": "1 step"}, hooks=hooks
    )
    words = ["run", config, "--runs-dir", tmp_path / "runs"]
    job = command(2, [*words, "--set", "hooks.killer={step=8}"])
    assert job.wait() == [-signal.SIGKILL] * 2, job.report()
    job = command(2, [*words, "--resume"])
    assert job.wait() == [0, 0], job.report()
    folder = only_run(tmp_path / "runs")
    curves = measured(folder)
    assert [step for step, _ in curves["train/loss"]] == list(range(1, 11))

    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {
        name: [[int(row["step"]), float(row[name])] for row in rows if row[name]] for name in curves
    } == curves

    scalars = scalars_of_tensorboard(folder / "tensorboard")
    assert scalars.keys() == curves.keys()
    for name, curve in curves.items():
        assert [step for step, _ in scalars[name]] == [step for step, _ in curve]
        assert [value for _, value in scalars[name]] == pytest.approx([value for _, value in curve])

    (run,) = read_by(READ_MLFLOW, store)
    assert run["history"] == curves
    assert (run["name"], run["status"]) == (folder.name, "FINISHED")
    assert run["params"]["train.global_batch_size"] == "8"
    assert run["tags"]["pipeline.run"] == folder.name
    assert (tmp_path / "mlruns").is_dir()  # beside the database, not where the run was started
    assert run["artifacts"] == ["config.toml", "metrics.jsonl", "run.json"]

    (file,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    (former,) = (folder / "wandb").glob("former-offline-run-*/run-*.wandb")
    assert file.name == former.name  # which has the id
    read = read_by(READ_WANDB, file)
    assert [row["_step"] for row in read["rows"]] == list(range(1, 11))
    for name, curve in curves.items():
        assert [[row["_step"], row[name]] for row in read["rows"] if name in row] == curve
    assert read["config"]["train"]["global_batch_size"] == 8


@pytest.mark.soak
def test_mlflow_has_what_a_resume_changed_and_whose_child_a_run_is(command, tmp_path):
    """TRK-07: 10 steps, then 14 with another setting; a parameter cannot be changed, a tag says it."""
    store = f"sqlite:///{tmp_path}/mlflow.db"
    hooks = CHECKPOINT | {"mlflow": {"tracking_uri": store, "experiment": "trials", "artifacts": False}}
    config = write_config(
        tmp_path, train={"steps": 10, "global_batch_size": 8, "log_every": "1 step"}, hooks=hooks
    )
    words = ["--runs-dir", tmp_path / "runs"]
    job = command(1, ["run", config, *words])
    assert job.wait() == [0], job.report()
    first = only_run(tmp_path / "runs")
    job = command(1, ["run", config, *words, "--resume", "--set", "train.steps=14"])
    assert job.wait() == [0], job.report()
    assert [attempt["changes"] != [] for attempt in record_of(first)["attempts"]] == [False, True]
    job = command(1, ["run", "--from", first.name, *words, "--set", "train.steps=2"])
    assert job.wait() == [0], job.report()
    parent, child = read_by(READ_MLFLOW, store)
    assert parent["params"]["train.steps"] == "10"
    assert parent["tags"]["changed.train.steps"] == "14"
    assert [step for step, _ in parent["history"]["train/loss"]] == list(range(1, 15))
    assert child["tags"]["mlflow.parentRunId"] == parent["id"]
    assert child["tags"]["pipeline.parent"] == first.name


def test_a_tracker_that_is_gone_does_not_stop_the_training(command, tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: it refuses
        hooks = CHECKPOINT | {"mlflow": {"tracking_uri": f"http://127.0.0.1:{nobody.getsockname()[1]}"}}
        config = write_config(tmp_path, train={"steps": 3, "global_batch_size": 8}, hooks=hooks)
        job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
        assert job.wait() == [0, 0], job.report()
    assert record_of(only_run(tmp_path / "runs"))["status"] == "completed"
    assert job.report().count("the run goes on without it") == 1
