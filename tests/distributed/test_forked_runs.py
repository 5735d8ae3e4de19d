"""A run that is started from another run's weights begins with exactly these, and its record says so."""

from __future__ import annotations

import json

import torch
from safetensors.torch import load_file

from runs_of import only_run, record_of, write_config

RATE = {"type": "sgd", "lr": 0.1}


def test_a_run_from_a_checkpoint_begins_with_its_weights_and_says_so(command, tmp_path):
    config = write_config(
        tmp_path, optimizer=RATE, train__epochs=2, hooks={"checkpoint": {"every": "1 epoch", "keep_last": 2}}
    )
    runs = tmp_path / "runs"
    job = command(2, ["run", config, "--runs-dir", runs])
    assert job.wait() == [0, 0], job.report()
    parent = only_run(runs)
    earlier, _ = sorted(path.name for path in parent.glob("checkpoints/step-*"))

    still = ["--set", "optimizer.lr=0.0", "--set", "train.epochs=1", "--name", "child"]
    job = command(2, ["run", "--from", f"{parent.name}@{earlier}", *still, "--runs-dir", runs])
    assert job.wait() == [0, 0], job.report()
    (child,) = runs.glob("child-*")
    ended = sorted(child.glob("checkpoints/step-*"))[-1]
    before, after = (
        load_file(folder / "model.safetensors") for folder in (parent / "checkpoints" / earlier, ended)
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before), "with a rate of 0 they stay"
    assert record_of(child)["parent"] == {"run": parent.name, "checkpoint": earlier}

    job = command(1, ["diff", parent, child, "--json"])
    assert job.wait() in ([0], [1]), job.report()
    rows = {row["key"]: row["values"] for row in json.loads(job.stdout(0))["config"]}
    assert rows["weights from"] == [None, f"{parent.name}@{earlier}"]
    assert rows["optimizer.lr"] == [0.1, 0.0]

    job = command(1, ["runs", "--tree", "--runs-dir", runs])
    assert job.wait() == [0], job.report()
    assert f"weights of {earlier}; optimizer.lr 0.1 -> 0.0" in job.stdout(0)
