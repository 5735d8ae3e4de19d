"""Promise 4: what a hook does on some ranks only never leaves the others waiting."""

from __future__ import annotations

import pytest

from runs_of import PARTS, only_run, record_of, rows_of, write_config

PROMPTLY = 30.0  # seconds on a busy machine, against a timeout of 5 minutes

CASES = (  # the collective, the method of the hook, the step at which it is called first
    ("all_reduce", "on_step_end", 1),
    ("barrier", "on_run_start", 0),
    ("functional all_reduce", "on_evaluate_end", 5),
    ("all_gather_object", "state_dict", 5),
    ("new_group, imported before", "on_step_end", 1),
    ("DDP", "on_step_end", 1),
    ("another group", "on_run_end", 15),
    ("barrier", "on_epoch_start", 0),
    ("gather", "on_epoch_end", 5),
    ("broadcast_object_list", "on_step_end", 1),
    ("all_gather_into_tensor", "on_step_end", 1),
    ("reduce", "on_step_end", 1),
    ("new_group", "on_evaluate_end", 5),
    ("backward of DDP", "on_step_end", 1),
)


def started(command, folder, hooks, **changes):
    config = write_config(
        folder, components=[str(PARTS), str(PARTS.with_name("gated_parts.py"))], hooks=hooks, **changes
    )
    return command(2, ["run", config, "--runs-dir", folder / "runs"], end_together=False)


def fails(command, folder, hooks, **changes):
    """The failure of a run, which every rank ends with."""
    job = started(command, folder, hooks, **changes)
    assert job.wait(timeout=PROMPTLY) == [1, 1], job.report()
    text = job.stderr(0) + job.stderr(1)
    assert text.count(" failed in ") == 1 and "Traceback" not in text
    return record_of(only_run(folder / "runs"))["failure"]


def test_a_collective_in_a_gated_hook_is_an_error(command, tmp_path, count):
    """At once, and by name: the other rank would take it for one of its own, or wait for ever."""
    for number, (call, event, step) in enumerate(CASES[: count(6, len(CASES))]):
        folder = tmp_path / str(number)
        folder.mkdir()
        hooks = {"grouped": {}, "forgetful": {"call": call, "event": event}}
        failure = fails(command, folder, hooks | {"checkpoint": {"every": "1 epoch"}})
        assert (failure["rank"], failure["component"], failure["step"]) == (0, "hooks.forgetful", step)
        assert failure["message"].startswith(f"hooks.forgetful.{event} has called a collective (")
        assert 'ranks = "all"' in failure["message"]


def test_the_model_can_be_called_in_a_gated_hook(command, tmp_path):
    """Hooks get the bare module, whose calls start no collective; groups of all ranks work as well."""
    job = started(command, tmp_path, {"sampling": {}, "grouped": {}})
    assert job.wait() == [0, 0], job.report()
    rows = [row for row in rows_of(only_run(tmp_path / "runs")) if "train/loss" in row]
    assert all("sampled" in row for row in rows[1:]) and all(row["ranks"] == 2 for row in rows[1:])


@pytest.mark.parametrize(("only", "names"), [(0, 0), (1, 3)])
def test_a_name_that_one_rank_logs_is_an_error(command, tmp_path, only, names):
    """The row's collective would not fit together; it says by itself that the names differ."""
    failure = fails(command, tmp_path, {"logging": {"names": names, "only": only}})
    assert failure["component"] == "hooks.logging"
    assert failure["message"].startswith(
        f"hooks.logging has logged 'mine alone' on rank {only} only, of 2 ranks; "
    )


@pytest.mark.parametrize("names", [8, 9])
def test_values_are_joined_by_name_however_many_in_whatever_order(command, tmp_path, names):
    job = started(command, tmp_path, {"logging": {"names": names}})
    assert job.wait() == [0, 0], job.report()
    rows = [row for row in rows_of(only_run(tmp_path / "runs")) if "value-0" in row]
    assert len(rows) == 15
    assert all(row[f"value-{number}"] == number + 0.5 for row in rows for number in range(names))


def test_what_one_rank_logs_at_the_end_is_an_error_too(command, tmp_path):
    """The last row has no loss: whether it is joined at all must not depend on what a rank has logged."""
    hooks = {"logging": {"names": 0, "only": 1}}
    failure = fails(
        command, tmp_path, hooks, train={"steps": 1, "global_batch_size": 8, "log_every": "never"}
    )
    assert failure["component"] == "hooks.logging" and failure["step"] == 1
