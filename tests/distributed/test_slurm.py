"""The batch script for Slurm: stopped before its time is up, and submitted again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runs_of import only_run, record_of, rows_of, write_config
from slurm import slurm

SCRIPT = Path(__file__).parents[2] / "examples" / "slurm.sh"


def until(condition: Callable[[], bool], output: Path) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, output.read_text() if output.exists() else "no output"
        time.sleep(0.1)


@pytest.mark.soak
def test_the_batch_script_stops_with_a_checkpoint_and_goes_on(tmp_path):
    """LCH-02, REQ-03: Slurm's signal, which comes to the launcher and, from Slurm, to the ranks as well."""
    config = write_config(tmp_path, train__epochs=30, hooks={"slow": {"seconds": 0.2}})
    output = tmp_path / "out.log"
    environ = {"PYTHON": sys.executable, "PROCESSES_PER_NODE": "2"}
    with slurm(tmp_path / "slurm").started() as cluster:
        job = cluster.submit(SCRIPT, config, output, environ)
        until(lambda: output.exists() and "first step done" in output.read_text(), output)
        cluster.terminate(job)
        until(lambda: cluster.is_over(job), output)
        run = only_run(tmp_path / "runs")
        record = record_of(run)
        assert (record["status"], record["reason"]) == ("stopped", "SIGTERM"), output.read_text()
        assert [path.name for path in run.glob("checkpoints/step-*")] == [f"step-{record['steps']:06d}"]
        last = record["steps"] + 2
        config.write_text(config.read_text().replace("epochs = 30", f"steps = {last}"))
        job = cluster.submit(SCRIPT, config, output, environ)
        until(lambda: cluster.is_over(job), output)
    assert record_of(run)["status"] == "completed", output.read_text()
    assert [row["step"] for row in rows_of(run) if "train/loss" in row] == list(range(1, last + 1))
