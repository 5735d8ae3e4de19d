"""Runs that are killed and resumed, with a record of all that they read and drew."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.client import Job
from runs_of import PARTS, only_run, record_of, write_config

Command = Callable[..., Job]
Kill = tuple[str, int]
"""The hook event and the step after which all ranks kill themselves; see killers.py."""

COMPONENTS = [str(PARTS.with_name(name)) for name in ("resume_parts.py", "killers.py", "saving.py")]


def recorded_config(folder: Path, **changes: Any) -> Path:
    """A config of three epochs of 20 samples, in which everything that is drawn is recorded."""
    defaults = {
        "components": COMPONENTS,
        "dataset": {"train": {"type": "drawing", "length": 20}, "eval": {"type": "drawing", "length": 5}},
        "model": {"type": "noted_net"},
        "objective": {"type": "noting"},
        "train": {"epochs": 3, "global_batch_size": 4, "log_every": "1 step"},
        "hooks": {"recorder": {}, "checkpoint": {"every": "2 steps"}},
    }
    return write_config(folder, **defaults | changes)


def run(command: Command, world_size: int, config: Path, *options: object, ends: int = 0) -> Job:
    """``pipeline run CONFIG`` to its end, with an exit status that all ranks have to have."""
    job = command(world_size, ["run", config, *options])
    assert job.wait() == [ends] * world_size, job.report()
    return job


def kill(command: Command, world_size: int, config: Path, runs: Path, event: str, step: int) -> Path:
    """Begin or resume the run in RUNS, and kill all its ranks; its folder."""
    killer = f"hooks.killer={{step={step}, event={event!r}}}"
    options = ["--runs-dir", runs, "--resume", "--set", killer]
    run(command, world_size, config, *options, ends=-signal.SIGKILL)
    return only_run(runs)


def killed_again_and_again(
    command: Command, world_size: int, config: Path, runs: Path, kills: Iterable[Kill]
) -> Path:
    """The folder of a run that was killed at each of these points, resumed after each, and ended well."""
    kills = sorted(kills, key=lambda point: (point[1], point[0] == "epoch_start"))
    for event, step in kills:
        kill(command, world_size, config, runs, event, step)
    run(command, world_size, config, "--runs-dir", runs, "--resume")
    folder = only_run(runs)
    statuses = [attempt["status"] for attempt in record_of(folder)["attempts"]]
    assert statuses == ["interrupted"] * len(kills) + ["completed"]
    return folder


def whole(command: Command, world_size: int, config: Path, runs: Path) -> Path:
    """The folder of a run that nobody killed."""
    run(command, world_size, config, "--runs-dir", runs)
    return only_run(runs)


def record(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """The recorder's rows, by step and rank; what attempts repeat has to be the same."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for path in folder.glob("record-*.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            assert found.setdefault((row["step"], row["rank"]), row) == row
    return found
