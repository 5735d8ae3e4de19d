"""CKP-01: the whole job is killed at random instants, again and again, while it saves every step."""

from __future__ import annotations

import random
import shutil
import time

import pytest
import torch
from safetensors.torch import load_file

from pipeline.runs.checkpoints import Checkpoints
from pipeline.runs.leftovers import find_leftovers
from pipeline.runs.metric_log import read_rows
from runs_of import only_run, record_of, rows_of, write_config

LOOK = 0.005  # seconds


def newest(folder):
    """The newest checkpoint, which has to be as it was written, and to load in plain torch."""
    store = Checkpoints(folder / "checkpoints")
    found, problems = store.newest_sound()
    assert problems == [], "no name refers to a part of a checkpoint"
    if found is not None:
        load_file(found.path / "model.safetensors")
        state = torch.load(found.path / "state.pt", weights_only=True)
        assert state["position"]["step"] == found.step and len(state["ranks"]) == 2
        assert read_rows(folder / "metrics.jsonl")[-1]["step"] >= found.step  # the log is never behind
    return found


def until(job, look):
    """Wait until ``look()`` finds something; what it has found."""
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, job.report()
        time.sleep(LOOK)
    return found


def until_it_saves(job, folder):
    """Wait for this attempt's first file of a checkpoint, under whatever name."""
    mark = f"-{job.pids[0]}-"
    until(job, lambda: any(mark in path.name for path in (folder / "checkpoints").glob(".tmp-step-*")))


def until_it_has_saved(job, folder, before):
    """Wait for a checkpoint that is newer than the one this attempt began with; its step."""
    store = Checkpoints(folder / "checkpoints")
    began = before.step if before else 0
    return until(job, lambda: max((one.step for one in store.checkpoints() if one.step > began), default=0))


def test_a_storm_of_kills(command, tmp_path, count):
    """CKP-01: after each the newest checkpoint verifies and loads, and the next resume begins there."""
    moment = random.Random(2)
    width = count(60_000, 400_000)  # 6 and 38 MB of weights and momenta
    config = write_config(
        tmp_path,
        model={"type": "net", "width": width},
        metrics={},
        train={"steps": 10_000, "global_batch_size": 8, "log_every": "1 step", "evaluate_every": "never"},
        hooks={"checkpoint": {"every": "1 step", "keep_last": 2}},
    )
    argv = ["run", config, "--runs-dir", tmp_path / "runs", "--resume"]
    before = None
    for kill in range(count(6, 200)):
        job = command(2, argv)
        until(job, lambda job=job: any(word in job.stderr(0) for word in ("resuming", "run folder")))
        seen = 0
        if kill % 3 == 2:  # or all might come while the first is written
            seen = until_it_has_saved(job, only_run(tmp_path / "runs"), before)
        elif before is not None and moment.random() < 0.6:  # the others are killed while they start
            until_it_saves(job, only_run(tmp_path / "runs"))
        time.sleep(moment.uniform(0, 0.4))
        for rank in (0, 1):
            job.kill(rank)
        assert job.wait() == [-9, -9], job.report()
        folder = only_run(tmp_path / "runs")
        now = newest(folder)
        if before is not None:
            assert f"from {before.name}" in job.stderr(0), job.report()
            assert now is not None and now.step >= before.step
        assert (now.step if now else 0) >= seen
        before = now
    last = ["--set", f"train.steps={before.step + 2}"]
    job = command(2, [*argv, *last])
    assert job.wait() == [0, 0], job.report()
    assert f"from {before.name}" in job.stderr(0)
    folder = only_run(tmp_path / "runs")
    for place in (tmp_path / "runs", folder, folder / "checkpoints"):
        assert find_leftovers(place) == []
    assert [row["step"] for row in rows_of(folder)] == list(range(1, before.step + 3))
    assert {one["status"] for one in record_of(folder)["attempts"]} == {"interrupted", "completed"}


def flip_a_bit(path):
    data = bytearray((path / "model.safetensors").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "model.safetensors").write_bytes(data)


def truncate(path):
    data = (path / "state.pt").read_bytes()
    (path / "state.pt").write_bytes(data[:-1])


ROT = {
    "a flipped bit": (flip_a_bit, "its SHA-256 differs"),
    "a truncated file": (truncate, "expected"),
    "a missing file": (lambda path: (path / "state.pt").unlink(), "is missing"),
    "an empty manifest": (lambda path: (path / "manifest.json").write_bytes(b""), "is no manifest"),
    "a manifest without files": (
        lambda path: (path / "manifest.json").write_text(
            '{"step": 15, "files": {}, "created": "2026-01-01T00:00:00Z"}'
        ),
        "names no files",
    ),
    "another step's folder": (
        lambda path: (shutil.rmtree(path), shutil.copytree(path.with_name("step-000010"), path)),
        "is of step 10; expected 15",
    ),
}


@pytest.mark.parametrize("rot", ROT)
def test_rot_in_the_newest_is_reported_and_the_one_before_is_used(command, tmp_path, trained, rot):
    """CKP-01, CKP-09: through the real --resume; the run ends with the bits of the whole one."""
    config, whole = trained
    folder = tmp_path / "runs" / whole.name
    shutil.copytree(whole, folder)
    damage, words = ROT[rot]
    damage(folder / "checkpoints" / "step-000015")
    longer = ["--set", "train.epochs=4"]
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs", "--resume", *longer])
    assert job.wait() == [0, 0], job.report()
    (warning,) = [line for line in job.stderr(0).splitlines() if "damaged checkpoint passed over" in line]
    assert words in warning and "step-000015" in warning
    assert "from step-000010" in job.stderr(0)
    assert record_of(folder)["attempts"][1]["first_step"] == 11
    rows = [row["step"] for row in rows_of(folder) if "train/loss" in row]
    assert rows == list(range(1, 21))
    assert Checkpoints(folder / "checkpoints").verify("step-000015") == []
    left, right = (load_file(one / "checkpoints/step-000015/model.safetensors") for one in (folder, whole))
    assert all(torch.equal(left[name], right[name]) for name in right)
