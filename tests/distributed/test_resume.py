"""Promise 5: a run killed at any instant and resumed ends as one never killed, bit for bit."""

from __future__ import annotations

import signal

import pytest
import torch

from comparing import assert_same_run
from runs_of import only_run, record_of, rows_of, weights_of, write_config

HARD = {  # everything that has a state
    "model": {"type": "net", "dropout": 0.2, "batch_norm": True},
    "optimizer": {"type": "adamw", "lr": 0.01},
    "scheduler": {"type": "warmup_cosine", "warmup_steps": 4},
    "train": {"epochs": 3, "global_batch_size": 8, "log_every": "3 steps", "clip_grad_norm": 1.0},
}
HOOKS = {
    "journal": {},
    "ema": {"decay": 0.9},
    "checkpoint": {"every": "2 steps", "keep_last": 3, "monitor": "eval/loss"},
}


def finished(job, world_size):
    assert job.wait() == [0] * world_size, job.report()


CASES = [
    pytest.param(1, {}, 9, id="alone, between two rows"),
    pytest.param(2, {}, 7, id="two ranks, mid-epoch"),
    pytest.param(2, {}, 5, id="two ranks, at an epoch's end before its checkpoint"),
    pytest.param(2, {"train__max_microbatch_size": 3}, 8, id="accumulation"),
    pytest.param(3, {}, 7, id="three ranks"),
    pytest.param(3, {"distributed__static_graph": True, "model__batch_norm": False}, 8, id="static graph"),
    pytest.param(2, {"train__precision": "bf16"}, 9, id="bf16"),
    pytest.param(2, {"loader__workers": 2}, 7, id="workers"),
]


@pytest.mark.parametrize(("world_size", "changes", "kill_after"), CASES)
def test_killed_and_resumed_equals_never_killed(command, tmp_path, world_size, changes, kill_after):
    """CKP-04, CKP-05, CKP-14, TRK-02: SIGKILL of all ranks after a step between two checkpoints."""
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    config = write_config(tmp_path, **HARD, hooks=HOOKS, **changes)
    finished(command(world_size, ["run", config, "--runs-dir", tmp_path / "whole"]), world_size)
    runs = ["--runs-dir", tmp_path / "killed"]
    kill = ["--set", f"hooks.killer={{step={kill_after}}}"]
    assert command(world_size, ["run", config, *runs, *kill]).wait() == [-signal.SIGKILL] * world_size
    killed = only_run(tmp_path / "killed")
    assert record_of(killed)["status"] == "running"
    job = command(world_size, ["run", config, *runs, "--resume"])
    finished(job, world_size)
    assert_same_run(killed, only_run(tmp_path / "whole"))
    attempts = record_of(killed)["attempts"]
    assert [attempt["status"] for attempt in attempts] == ["interrupted", "completed"]
    assert attempts[1]["first_step"] == (kill_after - 1) // 2 * 2 + 1, job.report()


def test_another_number_of_ranks_goes_on_with_the_same_order(command, tmp_path):
    """CKP-08, REQ-13: 2 ranks, then 3: the unconsumed samples once each, and a warning."""
    for name in ("records", "whole", "killed"):
        (tmp_path / name).mkdir()
    config = write_config(
        tmp_path,
        dataset={"train": {"type": "points", "length": 40, "double": True}},
        model={"type": "net", "double": True},
        metrics={},
        hooks={"checkpoint": {"every": "1 step"}},
    )
    finished(command(1, ["run", config, "--runs-dir", tmp_path / "whole"]), 1)
    runs = ["--runs-dir", tmp_path / "killed"]
    command(2, ["run", config, *runs, "--set", "hooks.killer={step=7}"]).wait()
    job = command(3, ["run", config, *runs, "--resume"])
    finished(job, 3)
    assert "written by 2 ranks and is resumed by 3" in job.stderr(0)
    left, right = weights_of(only_run(tmp_path / "killed")), weights_of(only_run(tmp_path / "whole"))
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=0, atol=1e-10)
    assert [row["step"] for row in rows_of(only_run(tmp_path / "killed"))] == list(range(1, 16))


def test_a_complete_run_is_left_as_it_is(command, tmp_path):
    """REQ-04: says so, exit status 0, changes nothing; a longer run goes on."""
    config = write_config(tmp_path, hooks={"checkpoint": {"every": "1 epoch"}})
    finished(command(2, ["run", config, "--runs-dir", tmp_path / "runs"]), 2)
    folder = only_run(tmp_path / "runs")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs", "--resume"])
    finished(job, 2)
    assert "is complete after 15 steps: nothing to do" in job.stderr(0)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    longer = ["--set", "train.epochs=4"]
    finished(command(2, ["run", config, "--runs-dir", tmp_path / "runs", "--resume", *longer]), 2)
    finished(command(2, ["run", config, "--runs-dir", tmp_path / "whole", *longer]), 2)
    left, right = weights_of(folder), weights_of(only_run(tmp_path / "whole"))
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert record_of(folder)["attempts"][1]["changes"] == [
        {"key": "train.epochs", "before": 3, "after": 4, "effect": "takes effect"}
    ]


def test_changes_are_listed_and_refused_or_taken(command, tmp_path):
    """CKP-12: a width is refused, a learning rate wants acceptance, and then is the one that is used."""
    config = write_config(tmp_path, hooks={"checkpoint": {"every": "1 epoch"}})
    runs = ["--runs-dir", tmp_path / "runs"]
    command(1, ["run", config, *runs, "--set", "hooks.killer={step=7}"], launcher=False).wait()
    folder = only_run(tmp_path / "runs")
    job = command(
        2, ["run", config, "--resume", folder, *runs, "--set", "model.width=9", "--set", "optimizer.lr=0.01"]
    )
    assert job.wait() in ([2, 2], [2, 75]), job.report()  # the launcher may end the other rank first
    assert "model.width" in job.stderr(0) and "refused" in job.stderr(0)
    assert "optimizer.lr: was 0.1, is 0.01: wants --accept-changes" in job.stderr(0)
    assert job.stderr(1) == ""
    accepted = ["--set", "optimizer.lr=0.01", "--accept-changes"]
    finished(command(1, ["run", config, "--resume", folder, *runs, *accepted], launcher=False), 1)
    assert [row["lr"] for row in rows_of(folder) if "lr" in row] == [0.1] * 5 + [0.01] * 10


def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(command, tmp_path):
    config = write_config(tmp_path, hooks={"checkpoint": {"every": "1 epoch"}})
    runs = ["--runs-dir", tmp_path / "runs"]
    command(2, ["run", config, *runs, "--set", "hooks.killer={step=12}"]).wait()
    folder = only_run(tmp_path / "runs")
    file = folder / "checkpoints" / "step-000010" / "state.pt"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    job = command(2, ["run", config, *runs, "--resume"])
    finished(job, 2)
    assert "damaged checkpoint passed over" in job.stderr(0) and "step-000010" in job.stderr(0)
    assert record_of(folder)["attempts"][1]["first_step"] == 6
    finished(command(2, ["run", config, "--runs-dir", tmp_path / "whole"]), 2)
    assert rows_of(folder) == rows_of(only_run(tmp_path / "whole"))


def test_a_run_killed_before_its_first_checkpoint_starts_over(command, tmp_path):
    """LCH-03: it says that it does, in the same folder."""
    config = write_config(tmp_path, hooks={"checkpoint": {"every": "1 epoch"}})
    runs = ["--runs-dir", tmp_path / "runs"]
    command(2, ["run", config, *runs, "--set", "hooks.killer={step=3}"]).wait()
    job = command(2, ["run", config, *runs, "--resume"])
    finished(job, 2)
    assert "from its beginning" in job.stderr(0)
    assert [row["step"] for row in rows_of(only_run(tmp_path / "runs")) if "train/loss" in row] == list(
        range(1, 16)
    )
