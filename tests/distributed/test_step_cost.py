"""What a training step does not do: read from tensors, call hooks that are not due, fetch row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runs_of import PARTS, only_run, write_config

PROBE = Path(__file__).parents[1] / "support" / "parts" / "step_probe.py"


def ran(command, tmp_path, world_size, **changes):
    config = write_config(tmp_path, components=[str(PARTS), str(PROBE)], **changes)
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(tmp_path / "runs")


def told(folder, name, world_size):
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(world_size)]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("log_every", [10, 100])
def test_no_value_is_read_between_log_points(command, tmp_path, world_size, log_every):
    """PRF-01: with clipping and a guard of the loss; the probe is seen to count where a hook reads."""
    changes = {
        "dataset": {"train": {"type": "points", "length": 160}},  # one epoch: its end is a report too
        "train": {
            "steps": 20,
            "global_batch_size": 8,
            "clip_grad_norm": 1.0,
            "log_every": f"{log_every} steps",
            "evaluate_every": "never",
        },
    }
    hooks = {"nan_guard": {}, "reads": {"reads_itself": log_every == 100}}
    folder = ran(command, tmp_path, world_size, hooks=hooks, **changes)
    for reads in told(folder, "reads", world_size):
        assert len(reads) == 20
        # The step behind a report is counted with the wishes agreed on in it, the first with the start's.
        quiet = [count for step, count in enumerate(reads, 1) if step % log_every > 1 and step < 20]
        assert quiet == [int(log_every == 100)] * len(quiet) and len(quiet) >= 16


def test_a_method_that_a_hook_does_not_override_is_never_called(command, tmp_path):
    """PRF-05: a hook costs nothing at the steps and events that it does not want."""
    folder = ran(command, tmp_path, 2, hooks={"rare": {}}, train__epochs=2)
    assert told(folder, "rare", 2) == [{}, {}]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("workers", [0, 1])
def test_rows_in_memory_are_fetched_by_batch(command, tmp_path, world_size, workers):
    """PRF-03: one call of ``__getitems__`` a batch and none of ``__getitem__``, read here or by a worker."""
    calls = tmp_path / "calls"
    ran(
        command,
        tmp_path,
        world_size,
        dataset={"train": {"type": "batched_rows", "length": 40, "calls": str(calls)}},
        loader__workers=workers,
        metrics={},
        train={"epochs": 2, "global_batch_size": 8},
    )
    assert calls.read_text().split() == [str(8 // world_size)] * 10 * world_size
