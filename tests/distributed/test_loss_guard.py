"""nan_guard: the first step that is not finite is named, and nothing is saved from it on."""

from __future__ import annotations

import pytest

from runs_of import PARTS, only_run, record_of, rows_of, write_config

PARTS_TOO = [str(PARTS), str(PARTS.with_name("guard_parts.py"))]
POISONED = {"type": "poisoned", "length": 40, "bad": 19}
"""In the order of the file, step 3 takes samples 16 to 23 of 40, and of 2 ranks the second takes 19."""

LATE = "100 steps"
CASES = {
    "log point": ({"train__log_every": "5 steps"}, 5),
    "evaluation": ({"train__log_every": LATE, "train__evaluate_every": "4 steps"}, 4),
    "checkpoint": ({"train__log_every": LATE, "hooks__checkpoint": {"every": "2 steps"}}, 4),
    "asked for": (
        {"train__log_every": LATE, "hooks__asker": {"step": 4, "checkpoint": True}},
        5,
    ),  # at the epoch's end
}


def config_of(folder, **changes):
    fixed = {"components": PARTS_TOO, "dataset__train": POISONED, "sampler": {"type": "sequential"}}
    return write_config(folder, **{"train__evaluate_every": "never", **fixed, **changes})


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_the_first_step_that_is_not_finite_is_named_wherever_it_is_found(command, tmp_path, case, world_size):
    """MET-06: with NaN on rank 1 only, all ranks end together, and no checkpoint has it."""
    changes, found_at = CASES[case]
    hooks = {name.partition("__")[2]: value for name, value in changes.items() if name.startswith("hooks")}
    changes = {name: value for name, value in changes.items() if not name.startswith("hooks")}
    config_of(tmp_path, **changes, hooks={**hooks, "nan_guard": {}})
    job = command(world_size, ["run", "config.toml"], cwd=tmp_path, launcher=world_size > 1)
    assert job.wait(timeout=60) == [1] * world_size, job.report()
    run = only_run(tmp_path / "runs")
    failure = record_of(run)["failure"]
    assert "nan_guard: train/loss is not finite at step 3, the first such step" in failure["message"]
    assert (failure["component"], failure["step"]) == ("hooks.nan_guard", found_at)
    saved = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    assert saved == (["step-000002"] if case == "checkpoint" else [])
    assert not any(row["step"] >= 3 for row in rows_of(run))


def test_a_run_without_the_guard_goes_on(command, tmp_path):
    config_of(tmp_path, train__epochs=1)
    job = command(2, ["run", "config.toml"], cwd=tmp_path, launcher=True)
    assert job.wait(timeout=60) == [0, 0], job.report()
    assert [row["train/loss"] for row in rows_of(only_run(tmp_path / "runs"))][2:] == ["NaN"] * 3


def test_resuming_after_the_guard_begins_at_the_checkpoint_before(command, tmp_path):
    config_of(tmp_path, hooks={"nan_guard": {}, "checkpoint": {"every": "2 steps"}}, train__log_every=LATE)
    job = command(2, ["run", "config.toml"], cwd=tmp_path, launcher=True)
    assert job.wait(timeout=60) == [1, 1], job.report()
    again = command(2, ["run", "config.toml", "--resume"], cwd=tmp_path, launcher=True)
    assert again.wait(timeout=60) == [1, 1], again.report()
    run = only_run(tmp_path / "runs")
    assert "at step 3, the first such step" in record_of(run)["failure"]["message"]
    assert record_of(run)["attempts"][1]["first_step"] == 3


@pytest.mark.parametrize("ranks", ["all", "main"])
def test_a_stop_before_the_first_step_is_before_the_first_step(command, tmp_path, ranks):
    config_of(tmp_path, hooks={"stop_at_start": {"ranks": ranks}})
    job = command(2, ["run", "config.toml"], cwd=tmp_path, launcher=True)
    assert job.wait(timeout=60) == [0, 0], job.report()
    record = record_of(only_run(tmp_path / "runs"))
    assert (record["status"], record["steps"], record["reason"]) == ("completed", 0, "enough")


@pytest.mark.parametrize("ranks", ["all", "main"])
def test_what_is_logged_at_the_end_is_in_the_last_row(command, tmp_path, ranks):
    config_of(tmp_path, train__steps=2, train__epochs=None, hooks={"last_word": {"ranks": ranks}})
    job = command(2, ["run", "config.toml"], cwd=tmp_path, launcher=True)
    assert job.wait(timeout=60) == [0, 0], job.report()
    run = only_run(tmp_path / "runs")
    assert rows_of(run)[-1] == {"step": 2, "epoch": 0, "last/word": 7.0}
    assert record_of(run)["metrics"]["last/word"] == 7.0
