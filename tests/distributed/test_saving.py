"""Promise 6 and saving beside training: what is written, when, and what a writer's failure does."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import torch

from pipeline.runs.checkpoints import Checkpoints
from runs_of import BASE, PARTS, only_run, record_of, rows_of, state_of, weights_of, write_config

SAVING = PARTS.with_name("saving.py")
COMPONENTS = [*BASE["components"], str(SAVING)]
PROMPTLY = 30.0  # seconds, against a timeout of 5 minutes


def ran(command, tmp_path, config, *, statuses=(0, 0), options=()):
    job = command(len(statuses), ["run", config, "--runs-dir", tmp_path / "runs", *options])
    assert job.wait() == list(statuses), job.report()
    return job, only_run(tmp_path / "runs")


def configured(tmp_path, **changes):
    return write_config(tmp_path, components=COMPONENTS, **changes)


def events(folder: Path) -> list[str]:
    """What the hook slow_disk has seen, in order."""
    return (folder / "disk.txt").read_text().splitlines()


def steps_during_writes(folder: Path) -> dict[int, int]:
    """How many steps were done while the checkpoint of each step was written."""
    counts: dict[int, int] = {}
    writing = None
    for event in events(folder):
        what, _, step = event.partition(" ")
        if what == "begin":
            writing = int(step)
            counts[writing] = 0
        elif what == "end":
            writing = None
        elif what == "step" and writing is not None:
            counts[writing] += 1
    return counts


def complete(folder: Path) -> list[int]:
    """The steps of all checkpoints, each of which verifies; no leftovers lie beside them."""
    store = Checkpoints(folder / "checkpoints")
    assert [path.name for path in store.folder.glob(".*")] == []
    assert [problem for one in store.checkpoints() for problem in store.verify(one.name)] == []
    return sorted(one.step for one in store.checkpoints())


def test_training_goes_on_while_a_checkpoint_is_written_which_is_its_own_step_s(command, tmp_path):
    """REQ-07: steps are done during a slow write, and every file has its own step's bits."""
    config = configured(
        tmp_path,
        train={"steps": 60, "global_batch_size": 8, "log_every": "20 steps", "evaluate_every": "never"},
        metrics={},
        hooks={
            "slow": {"seconds": 0.05},
            "slow_disk": {"seconds": 0.5},
            "witness": {},
            "checkpoint": {"every": "20 steps", "keep_last": 5},
        },
    )
    job, folder = ran(command, tmp_path, config)
    assert complete(folder) == [20, 40, 60]
    during = steps_during_writes(folder)
    assert during[20] >= 3 and during[40] >= 3, events(folder)
    assert "waits for that of step" not in job.stderr(0)
    for step in (20, 40, 60):
        name = f"step-{step:06d}"
        witness = torch.load(folder / f"witness-{step}.pt")
        weights = weights_of(folder, name)
        assert weights.keys() == witness["model"].keys()
        assert all(torch.equal(weights[key], witness["model"][key]) for key in weights)
        state = torch.load(folder / "checkpoints" / name / "state.pt", weights_only=True)
        momenta = [one["momentum_buffer"] for one in state["optimizer"]["state"].values()]
        assert all(map(torch.equal, momenta, witness["momenta"]))
        assert torch.equal(state["ranks"][0]["hooks"]["witness"]["counts"], torch.full((3,), float(step)))


def test_no_step_waits_for_a_write(command, tmp_path):
    """REQ-07: not one of nineteen; a write that ends after them all would hold any that waits for it."""
    config = configured(
        tmp_path,
        train={"steps": 40, "global_batch_size": 8, "log_every": "1 step", "evaluate_every": "5 steps"},
        hooks={"journal": {}, "held_disk": {"go_after": 39}, "checkpoint": {"every": "20 steps"}},
    )
    _, folder = ran(command, tmp_path, config)
    assert (folder / "writing").read_text() == "20" and complete(folder) == [20, 40]


def test_a_save_that_is_due_during_a_write_waits_and_none_is_skipped(command, tmp_path):
    """REQ-07: memory holds one snapshot at most; the wait is told once."""
    config = configured(
        tmp_path,
        train={"steps": 6, "global_batch_size": 8, "evaluate_every": "never"},
        metrics={},
        hooks={"slow_disk": {"seconds": 0.2}, "checkpoint": {"every": "1 step", "keep_last": 9}},
    )
    job, folder = ran(command, tmp_path, config)
    assert complete(folder) == [1, 2, 3, 4, 5, 6]
    assert job.stderr(0).count("waits for that of step") == 1
    writing = False
    for event in events(folder):
        assert not (writing and event == "snapshot"), events(folder)
        assert not (writing and event.startswith("begin"))
        writing = event.startswith("begin") or (writing and not event.startswith("end"))


@pytest.mark.parametrize("error", ["EDQUOT", "ENOSPC", "EIO"])
def test_a_writer_s_failure_is_raised_on_all_ranks_at_the_next_step(command, tmp_path, error):
    """REQ-07, CKP-10, CKP-13: with the errno, the path, needed and free bytes; the one before stands."""
    config = configured(
        tmp_path,
        hooks={
            "journal": {},
            "slow": {"seconds": 0.1},
            "broken_disk": {"step": 4, "error": error},
            "checkpoint": {"every": "2 steps"},
        },
    )
    started = time.monotonic()
    job, folder = ran(command, tmp_path, config, statuses=(1, 1))
    assert time.monotonic() - started < PROMPTLY
    (last,) = [line for line in job.stderr(0).splitlines() if "failed in" in line]
    assert "writing the checkpoint of step 4" in last and f"({error}); needed at least" in last
    assert "step-000004" in last and "bytes, free" in last
    for rank in (0, 1):
        ends = (folder / f"journal-{rank}.txt").read_text().splitlines()[-1]
        assert "step=4" in ends or "step=5" in ends, ends
    assert complete(folder) == [2]
    assert (folder / "checkpoints" / "last").read_text() == "step-000002\n"
    assert record_of(folder)["status"] == "failed"


def test_a_full_disk_may_be_a_warning(command, tmp_path):
    """CKP-10: on_disk_full = "warn" goes on, and the next checkpoint is tried again."""
    config = configured(
        tmp_path,
        hooks={
            "broken_disk": {"step": 4, "error": "ENOSPC"},
            "checkpoint": {"every": "2 steps", "keep_last": 9, "on_disk_full": "warn"},
        },
    )
    job, folder = ran(command, tmp_path, config)
    assert job.stderr(0).count("warning: no checkpoint of step 4") == 1
    assert complete(folder) == [2, 6, 8, 10, 12, 14, 15]
    assert len([row for row in rows_of(folder) if "train/loss" in row]) == 15


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_waits_for_the_last_file(command, tmp_path, rank):
    """REQ-07: also where another rank fails while rank 0 writes."""
    config = configured(
        tmp_path,
        hooks={
            "slow_disk": {"seconds": 1.5},
            "rank_thrower": {"step": 5, "rank": rank},
            "checkpoint": {"every": "4 steps"},
        },
    )
    job, folder = ran(command, tmp_path, config, statuses=(1, 1))
    assert "broken on purpose" in job.stderr(rank).splitlines()[-1]
    assert complete(folder) == [4]
    assert (folder / "checkpoints" / "last").read_text() == "step-000004\n"


def test_a_signal_waits_for_the_file_in_progress_and_for_its_own(command, tmp_path):
    """LCH-02: stopped in the middle of a slow write, both files are complete before any rank leaves."""
    config = configured(
        tmp_path,
        train__epochs=100,
        hooks={
            "slow": {"seconds": 0.05},
            "slow_disk": {"seconds": 1.0},
            "checkpoint": {"every": "4 steps", "keep_last": 1000},
        },
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("runs/*/disk.txt")) or "begin 4" not in events(only_run(tmp_path / "runs")):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.01)
    job.kill(1, signal.SIGTERM)
    assert job.wait(timeout=60) == [75, 75], job.report()
    folder = only_run(tmp_path / "runs")
    assert complete(folder) == sorted({4, record_of(folder)["steps"]})


@pytest.mark.parametrize("rank", [0, 1])
def test_a_hook_whose_state_fails_on_one_rank_ends_all(command, tmp_path, rank):
    """CKP-13: within seconds, named with its rank; no complete marker, the one before is the latest."""
    config = configured(
        tmp_path,
        distributed={"threads": 1, "timeout": "10 min"},
        hooks={
            "rank_thrower": {"step": 4, "rank": rank, "in_state": True},
            "checkpoint": {"every": "2 steps"},
        },
    )
    started = time.monotonic()
    job, folder = ran(command, tmp_path, config, statuses=(1, 1))
    assert time.monotonic() - started < PROMPTLY
    last = job.stderr(rank).splitlines()[-1]
    assert last.startswith(f"rank {rank} on") and "hooks.rank_thrower" in last and "broken on purpose" in last
    assert complete(folder) == [2]
    assert (folder / "checkpoints" / "last").read_text() == "step-000002\n"
    assert state_of(folder)["position"]["step"] == 2


@pytest.mark.parametrize(("world_size", "mean"), [(1, 2 / 6), (3, 8 / 10)])
def test_what_hooks_logged_outlives_a_change_of_ranks(command, tmp_path, world_size, mean):
    """CKP-08: each logs its rank; the row of step 8 has two ranks' steps 4 and 5, and the others' 6 and 7."""
    config = configured(
        tmp_path,
        train={"steps": 8, "global_batch_size": 8, "log_every": "4 steps"},
        hooks={"journal": {}, "checkpoint": {"every": "1 step"}},
    )
    runs = ["--runs-dir", tmp_path / "runs"]
    command(2, ["run", config, *runs, "--set", "hooks.killer={step=6}"]).wait()
    job, folder = ran(command, tmp_path, config, statuses=[0] * world_size, options=["--resume"])
    assert "from step-000005" in job.stderr(0), job.report()
    assert [row["journal/rank"] for row in rows_of(folder) if "journal/rank" in row][:2] == [0.5, mean]


def test_a_checkpoint_does_not_stay_in_memory_after_the_resume(command, tmp_path):
    """What was read is as large as the run's state; no rank holds it beside the state itself."""
    config = configured(tmp_path, hooks={"memory_witness": {}, "checkpoint": {"every": "1 epoch"}})
    ran(command, tmp_path, config)
    _, folder = ran(command, tmp_path, config, options=["--resume", "--set", "train.epochs=4"])
    for rank in (0, 1):
        lines = (folder / f"held-{rank}.txt").read_text().splitlines()
        assert lines == [f"{step} []" for step in range(1, 21)]
