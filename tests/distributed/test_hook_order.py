"""The whole ordered list of hook calls of a run: the specification of api/hook.py's page."""

from __future__ import annotations

import pytest

from runs_of import only_run, record_of, rows_of, state_of, write_config

WHOLE_RUN = """\
run_start epoch=0 step=0
epoch_start epoch=0 step=0
step_end epoch=0 step=1
step_end epoch=0 step=2
evaluate_end epoch=0 step=2
step_end epoch=0 step=3
epoch_end epoch=0 step=3
epoch_start epoch=1 step=3
step_end epoch=1 step=4
evaluate_end epoch=1 step=4
step_end epoch=1 step=5
step_end epoch=1 step=6
evaluate_end epoch=1 step=6
epoch_end epoch=1 step=6
run_end epoch=1 step=6
"""


def ran(command, tmp_path, config, world_size=2, statuses=None):
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == (statuses or [0] * world_size), job.report()
    return only_run(tmp_path / "runs")


def small(tmp_path, **changes):
    return write_config(
        tmp_path,
        **{
            "dataset__train": {"type": "points", "length": 20},
            "train": {
                "epochs": 2,
                "global_batch_size": 8,
                "evaluate_every": "2 steps",
                "log_every": "2 steps",
            },
            **changes,
        },
    )


def journal(folder, rank):
    lines = (folder / f"journal-{rank}.txt").read_text().splitlines()
    return "".join(line.rpartition(" calls=")[0] + "\n" for line in lines)


@pytest.mark.parametrize("ranks", [None, "main"])
def test_the_order_of_all_calls(command, tmp_path, ranks):
    """A hook of all ranks and a gated one see the same calls in the same order."""
    folder = ran(command, tmp_path, small(tmp_path, hooks={"journal": {"ranks": ranks} if ranks else {}}))
    assert journal(folder, 0) == WHOLE_RUN
    assert (folder / "journal-1.txt").exists() == (ranks is None)
    if ranks is None:
        assert journal(folder, 1) == WHOLE_RUN


@pytest.mark.parametrize("names", [("journal", "checkpoint"), ("checkpoint", "journal")])
def test_a_checkpoint_comes_last_whatever_the_order_in_the_file(command, tmp_path, names):
    """CKP-11: the saved state of a hook has the step's own calls counted."""
    tables = {"journal": {}, "checkpoint": {"every": "1 epoch", "monitor": "eval/loss"}}
    folder = ran(command, tmp_path, small(tmp_path, hooks={name: tables[name] for name in names}))
    before_run_end = WHOLE_RUN.count("\n") - 2  # run_start, which is not counted, and run_end, which is later
    assert state_of(folder)["ranks"][0]["hooks"]["journal"] == {"calls": before_run_end}


@pytest.mark.parametrize(("world_size", "ranks", "acts"), [(2, "all", 3), (2, "main", 4), (1, "main", 4)])
def test_a_stop_acts_at_once_or_at_the_next_report(command, tmp_path, world_size, ranks, acts):
    """Asked in step 3: a hook of all ranks is heard at once, a gated one where the ranks meet next."""
    config = small(
        tmp_path,
        train={"epochs": 2, "global_batch_size": 4, "evaluate_every": "never", "log_every": "4 steps"},
        hooks={"asker": {"step": 3, "stop": True, "checkpoint": True, "ranks": ranks}},
    )
    folder = ran(command, tmp_path, config, world_size)
    record = record_of(folder)
    assert (record["status"], record["reason"], record["steps"]) == ("completed", "enough", acts)
    assert [path.name for path in (folder / "checkpoints").glob("step-*")] == [f"step-{acts:06d}"]
    assert rows_of(folder)[-1]["step"] == acts


def test_early_stopping_stops_all_ranks(command, tmp_path):
    """The built-in, gated to rank 0, ends the run at the evaluation that exhausts its patience."""
    config = small(
        tmp_path,
        optimizer={"type": "sgd", "lr": 1e-12},
        train={"epochs": 50, "global_batch_size": 8},
        hooks={"early_stopping": {"monitor": "eval/accuracy", "mode": "max", "patience": 2}},
    )
    record = record_of(ran(command, tmp_path, config, 3))
    assert record["status"] == "completed" and record["steps"] == 9
