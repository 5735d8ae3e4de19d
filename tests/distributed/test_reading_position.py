"""Resuming finds the place in the epoch, and reads nothing that was read before."""

from __future__ import annotations

import json
import time

import pytest
import torch

from pipeline import EpochSampler
from pipeline.runs.store import CheckpointStore
from runs_of import PARTS, only_run, record_of, state_of, write_config

MILLION = 1_000_000


def test_an_epoch_that_has_ended_stays_ended_when_drop_last_changes(command, tmp_path):
    """drop_last true -> false: the samples left out do not come to life, and the epoch ends once."""
    changes = {"hooks": {"journal": {}, "checkpoint": {"every": "1 epoch"}}, "train__global_batch_size": 16}
    config = write_config(tmp_path, loader={"drop_last": True}, train__epochs=1, **changes)
    runs = tmp_path / "runs"
    job = command(2, ["run", config, "--runs-dir", runs])
    assert job.wait() == [0, 0], job.report()
    config = write_config(tmp_path, loader={"drop_last": False}, train__epochs=2, **changes)
    job = command(2, ["run", config, "--resume", only_run(runs), "--accept-changes"])
    assert job.wait() == [0, 0], job.report()
    folder = only_run(runs)
    calls = (folder / "journal-0.txt").read_text().splitlines()
    ends = [line.rpartition(" calls")[0] for line in calls if line.startswith("epoch_end")]
    assert ends == ["epoch_end epoch=0 step=2", "epoch_end epoch=1 step=5"]  # 40 samples: 2 and 3 batches
    assert record_of(folder)["steps"] == 5


def put_at(folder, step):
    """Write a checkpoint as one of a run that has done so many steps, all in its first epoch."""
    last = folder / "checkpoints" / (folder / "checkpoints" / "last").read_text().strip()
    state = state_of(folder)
    batch = state["global_batch_size"]
    state["position"] |= {"step": step, "step_in_epoch": step, "samples_seen": step * batch}
    files = {
        "model.safetensors": (last / "model.safetensors").read_bytes(),
        "state.pt": lambda file: torch.save(state, file),
    }
    info = json.loads((last / "manifest.json").read_text()).get("info")
    CheckpointStore(folder / "checkpoints").save(step, files, info=info)


@pytest.mark.parametrize("world_size", [1, 2])
def test_resuming_at_a_million_steps_reads_no_skipped_sample(command, tmp_path, world_size):
    """REQ-01: of a billion samples a step's own alone are asked for, as soon as at step 2."""
    (tmp_path / "read").mkdir()
    dataset = {"type": "indexed", "length": 10**9, "folder": str(tmp_path / "read")}
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(PARTS.with_name("reading_parts.py"))],
        dataset={"train": dataset},
        objective={"type": "telling"},
        metrics={},
        train={"steps": 2, "global_batch_size": 100},
        hooks={"checkpoint": {"every": "2 steps"}},
    )
    runs = tmp_path / "runs"
    job = command(world_size, ["run", config, "--runs-dir", runs])
    assert job.wait() == [0] * world_size, job.report()
    folder = only_run(runs)
    seconds = {}
    for step in (2, MILLION):
        if step == MILLION:
            put_at(folder, step)
        for path in (tmp_path / "read").iterdir():
            path.unlink()
        begin = time.monotonic()
        job = command(world_size, ["run", config, "--resume", folder, "--set", f"train.steps={step + 2}"])
        assert job.wait() == [0] * world_size, job.report()
        seconds[step] = time.monotonic() - begin
        rows = [line for path in (tmp_path / "read").iterdir() for line in path.read_text().splitlines()]
        asked = [row["index"] for row in map(json.loads, rows) if "index" in row]
        sampler = EpochSampler(10**9, seed=11, rank=0, world_size=1, global_batch_size=100)
        sampler.load_state_dict({"epoch": 0, "samples": step * 100})
        batches = iter(sampler)
        expected = [*next(batches), *next(batches)]
        assert set(asked) == set(expected)
        warm_up = 0 if world_size == 1 else 100  # DDP's, of the next step's own samples
        assert len(asked) == len(expected) + warm_up
    assert seconds[MILLION] - seconds[2] < 10  # a second on a quiet machine
    assert record_of(folder)["steps"] == MILLION + 2
