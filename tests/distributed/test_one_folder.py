"""One run is one folder: whichever rank comes late, and whatever a killed run has left."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness import Torchrun
from runs_of import PARTS, only_run, record_of, rows_of, write_config

OTHER_USER = 65534


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
    assert record_of(run)["device"] == "cpu"


def test_a_config_is_written_once_and_never_over_another_run_s(command, tmp_path):
    """TRK-06: 4 ranks, a hook that saves the config, an evaluation; then a second and a changed run."""
    config = write_config(
        tmp_path,
        components=[str(PARTS), str(PARTS.with_name("late.py"))],
        hooks={"config_saver": {}, "checkpoint": {"every": "1 epoch"}},
        train__epochs=1,
    )

    def ran(*options):
        job = command(4, ["run", config, "--runs-dir", tmp_path / "runs", *options])
        assert job.wait() == [0] * 4, job.report()
        return [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]

    (run,) = ran()
    text = (run / "config.toml").read_text()
    assert (run / "kept.toml").read_text() == text and "[metrics.accuracy]" in text
    assert "eval/accuracy" in rows_of(run)[-1]
    assert len(ran()) == 2 and (run / "config.toml").read_text() == text
    (run / "kept.toml").unlink()
    assert len(ran("--resume", run, "--set", "train.epochs=2")) == 2
    assert (run / "config.attempt-1.toml").read_text() == text
    assert "epochs = 2" in (run / "config.toml").read_text()
    (change,) = record_of(run)["attempts"][1]["changes"]
    assert change["key"] == "train.epochs"


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to be another user")
def test_another_user_starts_at_once_after_a_kill(command, tmp_path):
    """HNG-08: the same config, on the same machine, while the killed run's leftovers lie about."""
    config = write_config(tmp_path, hooks={"slow": {}, "checkpoint": {"every": "2 steps"}})
    kill_in_training(command(2, ["run", config, "--runs-dir", tmp_path / "runs"], end_together=False))
    identity = [f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # this interpreter's files
    with tempfile.TemporaryDirectory() as theirs:
        shutil.copy(config, theirs)
        os.chown(theirs, OTHER_USER, OTHER_USER)
        command_line = [sys.executable, "-m", "pipeline", "run", config.name, "--nproc", "2"]
        environ = {"HOME": theirs, "OMP_NUM_THREADS": "1"}
        with Torchrun(
            ["setpriv", *identity, *reading, *command_line], tmp_path / "launcher", environ, Path(theirs)
        ) as job:
            assert job.wait() == 0, job.output()
        run = only_run(Path(theirs) / "runs")
        assert run.stat().st_uid == OTHER_USER and record_of(run)["status"] == "completed"


def kill_in_training(job):
    deadline = time.monotonic() + 60
    while "first step done" not in job.stderr(0):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.01)
    for rank in range(2):
        job.kill(rank, signal.SIGKILL)
    job.wait()


def test_a_killed_run_leaves_nothing_in_the_way_of_the_next(command, tmp_path):
    """HNG-08: every process is killed in training, and the same command is given again at once."""
    config = write_config(
        tmp_path, hooks={"slow": {}, "checkpoint": {"every": "2 steps"}}, loader={"workers": 1}
    )
    arguments = ["run", config, "--runs-dir", tmp_path / "runs", "--resume"]
    kill_in_training(command(2, arguments, end_together=False))
    job = command(2, arguments)
    assert job.wait() == [0, 0], job.report()
    run = only_run(tmp_path / "runs")
    assert record_of(run)["status"] == "completed"
    assert [row["step"] for row in rows_of(run) if "train/loss" in row] == list(range(1, 16))
