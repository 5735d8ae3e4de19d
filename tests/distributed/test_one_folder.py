"""One run is one folder: whichever rank comes late, and whatever a killed run has left."""

from __future__ import annotations

import signal
import time

from runs_of import PARTS, only_run, record_of, rows_of, write_config


def test_late_ranks_share_the_folder_and_the_tracker_is_opened_once(command, tmp_path):
    """TRK-01, TRK-06: four ranks, two of them 2 s late; config.toml is written once, by rank 0."""
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(PARTS.with_name("late.py"))],
        hooks={"tracker": {}},
        train__epochs=1,
    )
    job = command(4, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0] * 4, job.report()
    run = only_run(tmp_path / "runs")
    assert (run / "opened").read_text() == f"0 {run}\n"
    assert sorted(path.name for path in (run / "logs").iterdir()) == [f"rank-{rank}.log" for rank in range(4)]
    assert [path.name for path in run.glob("config*")] == ["config.toml"]


def test_a_killed_run_leaves_nothing_in_the_way_of_the_next(command, tmp_path):
    """HNG-08: every process is killed in training, and the same command is given again at once."""
    config = write_config(
        tmp_path, hooks={"slow": {}, "checkpoint": {"every": "2 steps"}}, loader={"workers": 1}
    )
    arguments = ["run", config, "--runs-dir", tmp_path / "runs", "--resume"]
    job = command(2, arguments, end_together=False)
    deadline = time.monotonic() + 60
    while "first step done" not in job.stderr(0):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.01)
    for rank in range(2):
        job.kill(rank, signal.SIGKILL)
    job.wait()
    job = command(2, arguments)
    assert job.wait() == [0, 0], job.report()
    run = only_run(tmp_path / "runs")
    assert record_of(run)["status"] == "completed"
    assert [row["step"] for row in rows_of(run) if "train/loss" in row] == list(range(1, 16))
