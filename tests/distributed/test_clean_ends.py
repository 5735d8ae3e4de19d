"""A run that is over is over: every process ends at once with 0, says nothing of it, and leaves nothing."""

from __future__ import annotations

import os
import time
from datetime import datetime
from itertools import cycle, islice, product
from pathlib import Path

from runs_of import only_run, record_of, write_config

AT_ONCE = 10.0  # seconds from the record of the end to the end of the last process, on a busy machine
COMPLAINTS = ("terminate called", "Traceback", "Exception ignored", "leaked", "Aborted", "Warning", "warning")
KINDS = tuple(product([False, True], repeat=3))


def started(folder, kind):
    """The arguments of a run of some steps, with or without evaluation, checkpoints and workers."""
    evaluates, saves, reads = kind
    folder.mkdir()
    changes = {} if evaluates else {"dataset__eval": None, "metrics": {}}
    config = write_config(
        folder,
        train={"epochs": 2, "global_batch_size": 8, "log_every": "2 steps"},
        hooks={"checkpoint": {"every": "1 epoch"}} if saves else {},
        loader={"workers": 2 if reads else 0},
        **changes,
    )
    return ["run", config, "--runs-dir", folder / "runs"]


def ended_well(folder, text, report):
    """Said nothing but its results, and ended soon after it said so."""
    record = record_of(only_run(folder / "runs"))
    assert record["status"] == "completed" and record["steps"] == 10, report()
    seconds = time.time() - datetime.fromisoformat(record["ended"]).timestamp()
    assert seconds < AT_ONCE, f"{seconds} s\n{report()}"
    assert not [word for word in COMPLAINTS if word in text], report()


def left_in_session(session):
    """The processes of a session but for its leader."""
    left = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended just now
            continue
        if int(fields[3]) == session != int(path.parent.name) and fields[0] not in "ZX":
            left.append(path.parent.name)
    return left


def test_short_runs_end_well(command, tmp_path, count):
    """Two ranks; the group is left while no reducer lives, and no thread is left behind that could abort."""
    for number, kind in enumerate(islice(cycle(reversed(KINDS)), count(3, 180))):
        folder = tmp_path / str(number)
        job = command(2, started(folder, kind), end_together=False)
        session = os.getsid(job.pids[0])
        assert job.wait() == [0, 0], job.report()
        ended_well(folder, job.output(0) + job.output(1), job.report)
        assert not left_in_session(session)
        job.close()


def test_short_runs_end_well_under_torchrun(torchrun, tmp_path, count):
    """With a whole interpreter torn down at the end, which is where peers abort."""
    for number, kind in enumerate(islice(cycle(reversed(KINDS)), count(1, 20))):
        folder = tmp_path / str(number)
        job = torchrun(2, started(folder, kind))
        assert job.wait() == 0, job.output()
        text = job.output()
        ended_well(
            folder, "\n".join(line for line in text.splitlines() if "OMP_NUM_THREADS" not in line), job.output
        )
        job.close()
