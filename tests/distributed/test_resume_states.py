"""Promise 5 where it is easily forgotten: late kills, wishes on their way, changed lengths and batches."""

from __future__ import annotations

import signal

import pytest
import torch

from runs_of import BASE, PARTS, only_run, record_of, rows_of, weights_of, write_config


def run(command, config, runs, *options, world_size=2, ends=0):
    job = command(world_size, ["run", config, "--runs-dir", runs, *options])
    assert job.wait() == [ends] * world_size, job.report()
    return job


def killed_and_resumed(command, tmp_path, config, kill, *options, world_size=2):
    """The folder of a run that was killed once and resumed."""
    runs = tmp_path / "killed"
    run(command, config, runs, "--set", kill, world_size=world_size, ends=-signal.SIGKILL)
    run(command, config, runs, "--resume", only_run(runs), *options, world_size=world_size)
    return only_run(runs)


def whole(command, tmp_path, config, *options, world_size=2):
    run(command, config, tmp_path / "whole", *options, world_size=world_size)
    return only_run(tmp_path / "whole")


def same(left, right):
    ours, theirs = weights_of(left), weights_of(right)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert rows_of(left) == rows_of(right)


def test_a_kill_between_the_last_checkpoint_and_the_record(command, tmp_path):
    """The last row is written before the last checkpoint: once, with the rate of its step."""
    config = write_config(
        tmp_path,
        scheduler={"type": "warmup_linear"},
        train__log_every="4 steps",
        hooks={"journal": {}, "checkpoint": {"every": "1 epoch"}},
    )
    folder = killed_and_resumed(command, tmp_path, config, "hooks.end_killer={}")
    same(folder, whole(command, tmp_path, config))
    assert [row["step"] for row in rows_of(folder) if "train/loss" in row] == [4, 8, 12, 15]


def test_a_run_that_a_hook_has_ended_stays_ended(command, tmp_path):
    """CKP-11: killed after early stopping had spoken, it does not train on."""
    config = write_config(
        tmp_path,
        optimizer={"type": "sgd", "lr": 1e-12},
        train__epochs=9,
        hooks={
            "early_stopping": {"monitor": "eval/accuracy", "mode": "max", "patience": 1},
            "checkpoint": {"every": "1 epoch"},
        },
    )
    folder = killed_and_resumed(command, tmp_path, config, "hooks.end_killer={}")
    assert record_of(folder)["steps"] == 10
    same(folder, whole(command, tmp_path, config))
    run(
        command,
        config,
        tmp_path / "killed",
        "--resume",
        "--set",
        "train.epochs=10",
        "--unset",
        "hooks.early_stopping",
    )
    assert record_of(folder)["steps"] == 50  # made longer, it is meant to go on


def test_what_hooks_draw_as_an_attempt_begins_moves_no_stream(command, tmp_path):
    """It comes once an attempt, and the dropout goes on as it was all the same."""
    config = write_config(
        tmp_path,
        model={"type": "net", "dropout": 0.5},
        hooks={"drawing_at_start": {}, "checkpoint": {"every": "2 steps"}},
    )
    folder = killed_and_resumed(command, tmp_path, config, "hooks.killer={step=7}")
    same(folder, whole(command, tmp_path, config))


def test_more_patience_lets_a_run_go_on(command, tmp_path):
    """CKP-12: ended by early stopping; with patience 2 raised to 4 it ends where that would end it."""
    config = write_config(
        tmp_path,
        optimizer={"type": "sgd", "lr": 1e-12},
        train__epochs=9,
        hooks={
            "early_stopping": {"monitor": "eval/accuracy", "mode": "max", "patience": 2},
            "checkpoint": {"every": "1 epoch"},
        },
    )
    runs, more = tmp_path / "killed", ["--set", "hooks.early_stopping.patience=4"]
    run(command, config, runs)
    folder = only_run(runs)
    assert record_of(folder)["steps"] == 15
    job = run(command, config, runs, "--resume", folder, "--set", "hooks.journal={}")  # another hook's change
    assert "completed after 15 steps (early stopping" in job.stderr(0)
    run(command, config, runs, "--resume", folder, *more)
    assert record_of(folder)["steps"] == 25
    same(folder, whole(command, tmp_path, config, *more))


def test_a_gated_hooks_wish_is_kept(command, tmp_path):
    """Asked for in step 2, saved in step 3, killed in step 4, heard in step 5."""
    config = write_config(
        tmp_path,
        train__log_every="5 steps",
        hooks={"asker": {"step": 2, "stop": True}, "checkpoint": {"every": "3 steps"}},
    )
    folder = killed_and_resumed(command, tmp_path, config, "hooks.killer={step=4}")
    assert record_of(folder)["steps"] == 5
    same(folder, whole(command, tmp_path, config))


@pytest.mark.parametrize("world_size", [1, 2])
def test_buffers_that_no_state_dict_has(command, tmp_path, world_size):
    config = write_config(tmp_path, model={"type": "remembering"}, hooks={"checkpoint": {"every": "2 steps"}})
    folder = killed_and_resumed(command, tmp_path, config, "hooks.killer={step=7}", world_size=world_size)
    same(folder, whole(command, tmp_path, config, world_size=world_size))


@pytest.mark.parametrize("own_generator", [False, True])
def test_a_torch_sampler_is_read_again_alike(command, tmp_path, own_generator):
    """SMP-08, CKP-04: in mid-epoch, with the global generator and with one of its own."""
    config = write_config(
        tmp_path,
        sampler={"type": "torchs_random", "own_generator": own_generator},
        hooks={"checkpoint": {"every": "2 steps"}},
    )
    folder = killed_and_resumed(command, tmp_path, config, "hooks.killer={step=8}")
    same(folder, whole(command, tmp_path, config))


def test_accepted_arguments_of_the_scheduler_count(command, tmp_path):
    """CKP-12: from the checkpoint on the rate follows the new argument."""
    config = write_config(
        tmp_path,
        scheduler={"type": "step_lr", "step_size": 1, "gamma": 0.5},
        hooks={"checkpoint": {"every": "2 steps"}},
    )
    change = ["--accept-changes", "--set", "scheduler.gamma=1.0"]
    folder = killed_and_resumed(command, tmp_path, config, "hooks.killer={step=3}", *change)
    rates = [row["lr"] for row in rows_of(folder) if "lr" in row]
    assert rates == pytest.approx([0.1, 0.05] + [0.025] * 13)


def test_a_one_cycle_is_lengthened(command, tmp_path):
    config = write_config(
        tmp_path,
        scheduler={"type": "one_cycle_lr", "max_lr": 0.1},
        hooks={"checkpoint": {"every": "1 epoch"}},
    )
    run(command, config, tmp_path / "runs")
    run(command, config, tmp_path / "runs", "--resume", "--accept-changes", "--set", "train.epochs=5")
    assert record_of(only_run(tmp_path / "runs"))["steps"] == 25


RISE_AND_FALL = {"type": "one_cycle_lr", "max_lr": 0.1}


@pytest.mark.parametrize("scheduler", [{"type": "warmup_linear"}, RISE_AND_FALL], ids=["linear", "one cycle"])
def test_another_batch_size_changes_the_length_that_is_told(command, tmp_path, scheduler):
    """CKP-08: 3 of 15 steps are done; the rest takes 24 of half the size, for hooks and the scheduler."""
    config = write_config(
        tmp_path,
        components=[*BASE["components"], str(PARTS.with_name("statistics_parts.py"))],
        scheduler=scheduler,
        hooks={"length": {}, "checkpoint": {"every": "1 step"}},
    )
    change = ["--accept-changes", "--set", "train.global_batch_size=4"]
    folder = killed_and_resumed(command, tmp_path, config, "hooks.killer={step=4}", *change)
    rows = [row for row in rows_of(folder) if "lr" in row]
    assert [row["step"] for row in rows] == list(range(1, 28))
    assert {row["length"] for row in rows[1:3]} == {15} and {row["length"] for row in rows[4:]} == {27}
    if scheduler is RISE_AND_FALL:
        assert rows[-1]["lr"] < 1e-5 < rows[-2]["lr"]
    else:
        expected = [0.1 * (1 - s / 15) for s in range(4)]  # that of step 4 was set with step 3
        expected += [0.1 * (1 - s / 27) for s in range(4, 27)]
        assert [row["lr"] for row in rows] == pytest.approx(expected)


def test_an_epoch_that_became_shorter(command, tmp_path):
    """Four whole batches and one of two samples; without the short one step 5 is past the end."""
    config = write_config(
        tmp_path,
        dataset__train={"type": "points", "length": 34},
        hooks={"checkpoint": {"every": "1 step"}},
    )
    folder = killed_and_resumed(
        command, tmp_path, config, "hooks.killer={step=6}", "--set", "loader.drop_last=true"
    )
    assert record_of(folder)["status"] == "completed"


@pytest.mark.parametrize(("batch", "steps"), [(4, 2 * 10 + 3 + 4), (16, None)])
def test_another_batch_size_in_mid_epoch(command, tmp_path, batch, steps):
    """CKP-08: the rest of the epoch once each where the position fits, else refused with the remedy."""
    config = write_config(tmp_path, hooks={"checkpoint": {"every": "1 step"}})
    runs = tmp_path / "killed"
    run(command, config, runs, "--set", "hooks.killer={step=4}", ends=-signal.SIGKILL)
    options = ["--resume", only_run(runs), "--accept-changes", "--set", f"train.global_batch_size={batch}"]
    job = command(2, ["run", config, "--runs-dir", runs, *options])
    if steps is None:
        assert job.wait() == [1, 1]
        assert "stands at sample 24 of its epoch, in the middle of a global batch of 16" in job.report()
    else:
        assert job.wait() == [0, 0], job.report()
        assert record_of(only_run(runs))["steps"] == steps
