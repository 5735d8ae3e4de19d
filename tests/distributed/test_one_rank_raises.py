"""Promise 7: whatever one rank raises, wherever, every process ends soon, and one report says who."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from runs_of import PARTS, only_run, record_of, write_config

PROMPTLY = 30.0  # seconds on a busy machine, against a timeout of 10 minutes; 10 on a quiet one

PLACES = {
    "train.init": "dataset.train",
    "train.len": "dataset.train",
    "train.set_epoch": "dataset.train",
    "train.read": "dataset.train",
    "train.collate": "dataset.train",
    "eval.init": "dataset.eval",
    "eval.read": "dataset.eval",
    "sampler.init": "sampler",
    "sampler.indices": "sampler",
    "model.init": "model",
    "model.forward": "model",
    "model.backward": "model",
    "model.evaluate": "model",
    "model.state_dict": "model",
    "objective.init": "objective",
    "objective.call": "objective",
    "optimizer.init": "optimizer",
    "optimizer.step": "optimizer",
    "optimizer.state_dict": "optimizer",
    "scheduler.init": "scheduler",
    "scheduler.step": "scheduler",
    "metric.init": "metrics.trapped",
    "metric.update": "metrics.trapped",
    "metric.compute": "metrics.trapped",
    "hook.init": "hooks.trapped",
    "hook.on_run_start": "hooks.trapped",
    "hook.on_epoch_start": "hooks.trapped",
    "hook.on_step_end": "hooks.trapped",
    "hook.on_evaluate_end": "hooks.trapped",
    "hook.on_epoch_end": "hooks.trapped",
    "hook.on_run_end": "hooks.trapped",
    "hook.state_dict": "hooks.trapped",
    "hook.load_state_dict": "hooks.trapped",
}
"""Where a trap is, and the key of the component that is to be blamed."""

ERRORS = {
    "value": "ValueError",
    "two": "TwoArguments",
    "unpicklable": "Unpicklable",
    "unspeakable": "Unspeakable",
    "outside": "Outside",
    "slotted": "Slotted",
    "exit": "SystemExit",
    "exit text": "SystemExit",
    "interrupt": "KeyboardInterrupt",
    "memory": "MemoryError",
    "stop": "StopIteration",
    "group": "ExceptionGroup",
    "gloo": "RuntimeError",
    "lines": "ValueError",
}


RANK_0_ONLY = ("model.state_dict", "optimizer.state_dict")
IN_WORKERS = ("train.read", "train.collate", "eval.read")


@dataclass(frozen=True)
class Case:
    place: str
    error: str
    rank: int
    workers: int = 0

    def __str__(self):
        return f"{self.place}-{self.error}-{self.rank}" + "-worker" * bool(self.workers)


def cases(error):
    """All places for one error, in another order for each, so that the first ones differ."""
    turn = 5 * list(ERRORS).index(error) % len(PLACES)
    places = [*PLACES][turn:] + [*PLACES][:turn]
    if error == "gloo":  # there it could be the reduction's own, for the sake of another rank
        places.remove("model.backward")
    here = [
        Case(place, error, 0 if place in RANK_0_ONLY else number % 2) for number, place in enumerate(places)
    ]
    return here + [Case(place, error, 1, workers=1) for place in IN_WORKERS]


def config_of(folder):
    return write_config(
        folder,
        components=[str(PARTS), str(PARTS.with_name("traps.py"))],
        model={"type": "trapped"},
        dataset={
            "train": {"type": "trapped", "name": "train"},
            "eval": {"type": "trapped", "name": "eval"},
        },
        objective={"type": "trapped"},
        optimizer={"type": "trapped"},
        scheduler={"type": "trapped"},
        sampler={"type": "trapped"},
        metrics={"trapped": {}},
        hooks={"trapped": {}, "checkpoint": {"every": "1 epoch"}},
        train={"epochs": 2, "global_batch_size": 8, "log_every": "1 step"},
        distributed={"threads": 1, "timeout": "10 min"},
    )


def others_of_session(session):
    """The processes of a job's session but for the launcher that leads it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        if int(fields[3]) == session != pid and fields[0] not in "ZX":
            found.append(pid)
    return found


def springs(command, config, case, *arguments, **variables):
    """Run into a trap: every process ends soon, by itself."""
    trap = {"TRAP_PLACE": case.place, "TRAP_ERROR": case.error, "TRAP_RANK": str(case.rank)}
    job = command(
        2,
        ["run", config, "--runs-dir", config.parent / "runs", *arguments],
        env=trap | {"TORCHELASTIC_ERROR_FILE": str(config.with_name("error.json"))} | variables,
        end_together=False,
    )
    session = os.getsid(job.pids[0])
    assert job.wait(timeout=PROMPTLY) == [1, 1], job.report()
    deadline = time.monotonic() + PROMPTLY
    while left := others_of_session(session):
        assert time.monotonic() < deadline, f"{left} live on\n{job.report()}"
        time.sleep(0.02)
    return job


def is_blamed(job, config, case):
    """The report stands last and once, in run.json, and in the launcher's error file."""
    text = "".join(job.stderr(rank) for rank in range(job.request.world_size))
    key, kind = PLACES[case.place], ERRORS[case.error]
    kinds = (kind, "ComponentError") if case.workers else (kind,)
    if case.error == "stop":
        kinds += ("RuntimeError",)  # the interpreter's own, where a generator was on the way
    last = job.stderr(case.rank).splitlines()[-1]
    assert [line for line in text.splitlines() if " failed in " in line] == [last], text
    place = f"{config}:{config.read_text().splitlines().index(f'[{key}]') + 1}:"
    assert last.startswith(f"rank {case.rank} on ") and f"({key}, {place}" in last, text
    assert ", after step " in last and kind in last.partition(", after step ")[2], text
    if case.workers:
        assert "in worker 0, while Trapped read the samples [" in last, text
    record = record_of(only_run(config.parent / "runs"))
    failure = record["failure"]
    assert record["status"] == record["attempts"][-1]["status"] == "failed"
    assert (failure["rank"], failure["component"]) == (case.rank, key)
    assert failure["host"] and failure["place"].startswith(place) and failure["type"] in kinds
    assert "in pitfall" in failure["traceback"] and "in pitfall" in text
    told = json.loads(config.with_name("error.json").read_text())["message"]["message"]
    assert failure["type"] in told


@pytest.mark.parametrize("error", ERRORS)
def test_one_rank_raises(command, tmp_path, count, error):
    """HNG-01: in the data, a worker, the model, ..., every method of a hook, saving and resuming."""
    all_cases = cases(error)
    for case in all_cases[: count(1, len(all_cases))]:
        folder = tmp_path / str(case)
        folder.mkdir()
        config, resume = config_of(folder), []
        if case.place == "hook.load_state_dict":
            resume = ["--resume"]
            job = command(2, ["run", config, "--runs-dir", folder / "runs", "--set", "train.epochs=1"])
            assert job.wait() == [0, 0], job.report()
        workers = ["--set", f"loader.workers={case.workers}"]
        job = springs(command, config, case, *workers, *resume)
        is_blamed(job, config, case)


@pytest.mark.parametrize("again", ["unspeakable", "exit"])
def test_what_on_exception_raises_is_no_more_than_a_note(command, tmp_path, again):
    """The hook fails at being told of a failure; the first one is reported all the same."""
    case = Case("model.forward", "value", 1)
    config = config_of(tmp_path)
    job = springs(command, config, case, TRAP_AGAIN=again)
    is_blamed(job, config, case)
    assert f"hooks.trapped.on_exception failed too: {ERRORS[again]}" in job.stderr(1)


@pytest.mark.parametrize("error", ["value", "exit"])
def test_a_component_file_that_one_rank_cannot_import(command, tmp_path, error):
    """At start-up, before the ranks know of each other: rank 0 says it, for rank 1, and makes nothing."""
    config = config_of(tmp_path)
    job = command(
        2,
        ["run", config, "--runs-dir", tmp_path / "runs"],
        env={
            "TRAP_PLACE": "import",
            "TRAP_ERROR": error,
            "TRAP_RANK": "1",
            "TORCHELASTIC_ERROR_FILE": str(tmp_path / "error.json"),
        },
    )
    assert job.wait(timeout=PROMPTLY) == [2, 2], job.report()
    assert job.stderr(1) == "springing import\n"
    lines = job.stderr(0).splitlines()
    assert lines[0].startswith("rank 1 on ") and f" {config}:" in lines[0], job.report()
    assert "traps.py cannot be imported" in lines[0] and ERRORS[error] in lines[-1]
    assert job.stderr(0).count("pitfall") and not (tmp_path / "runs").exists()
    assert ERRORS[error] in json.loads((tmp_path / "error.json").read_text())["message"]["message"]
