"""How soon a stop comes, wherever the signal finds a rank, and that agreeing on it costs a step nothing."""

from __future__ import annotations

import json
import signal
import time
from contextlib import closing

import pytest

from runs_of import BASE, PARTS, only_run, record_of, rows_of, write_config

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
COMPONENTS = [
    *BASE["components"],
    *(str(PARTS.with_name(f"{name}.py")) for name in ("signalling", "counting")),
]
STOPS = {
    "start": (0, 0),
    "step": (4, 5),
    "sample": (4, 5),
    "evaluation": (4, 4),
    "snapshot": (3, 4),
    "write": (3, 15),
}
"""By moment, the first and the last step after which the run may stop: within two steps of the signal."""


def config_of(folder, **changes):
    return write_config(
        folder,
        components=COMPONENTS,
        model={"type": "signalling"},
        dataset={
            "train": {"type": "signalling", "length": 40, "moment": "sample"},
            "eval": {"type": "signalling", "length": 23, "moment": "evaluation"},
        },
        train__evaluate_every="2 steps",
        train__stop_signals=["TERM", "INT", "USR1"],
        hooks={"signalling": {}, "journal": {}, "checkpoint": {"every": "3 steps", "keep_last": 9}},
        **changes,
    )


@pytest.fixture(scope="module")
def whole(rank_server, tmp_path_factory):
    """The rows of the run that nobody stops, by the number of its ranks."""
    rows = {}
    for world_size in (2, 3):
        folder = tmp_path_factory.mktemp("whole")
        line = ["run", config_of(folder), "--runs-dir", folder / "runs"]
        with closing(rank_server.command(world_size, line)) as job:
            assert job.wait() == [0] * world_size, job.report()
        rows[world_size] = rows_of(only_run(folder / "runs"))
    return rows


def begun(job):
    deadline = time.monotonic() + 60
    while "first step done" not in job.stderr(0):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.005)


def steps_of(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*"))


def last_calls(folder, world_size):
    """The last call of the hooks on each rank."""
    return {(folder / f"journal-{rank}.txt").read_text().splitlines()[-1] for rank in range(world_size)}


@pytest.mark.parametrize("moment", STOPS)
def test_a_signal_wherever_it_finds_a_rank(command, tmp_path, count, whole, moment):
    """LCH-02, REQ-03: all stop after one step, the same or the next, with one checkpoint; resume is exact.

    Without the launcher's help, which would send SIGTERM to all when the first leaves.
    """
    turn = list(STOPS).index(moment)
    who = [0] if moment == "write" else [0, 1, "all"]
    for attempt in range(count(1, 6)):
        world_size = 2 + (turn + attempt) % 2
        rank, number = who[(turn + attempt) % len(who)], NUMBERS[(turn + attempt) % 3]
        folder = tmp_path / str(attempt)
        folder.mkdir()
        line = ["run", config_of(folder), "--runs-dir", folder / "runs", "--resume"]
        environ = {"SIGNAL": f"{moment} {rank} {int(number)}"}
        job = command(world_size, line, env=environ, end_together=False)
        assert job.wait() == [75] * world_size, job.report()
        run = only_run(folder / "runs")
        record, (first, last) = record_of(run), STOPS[moment]
        assert record["status"] == "stopped" and first <= record["steps"] <= last, job.report()
        kept = set(range(3, record["steps"], 3))
        assert set(steps_of(run)) == kept | ({record["steps"]} - {0})
        if record["steps"]:
            assert len(last_calls(run, world_size)) == 1
        job = command(world_size, line)
        assert job.wait() == [0] * world_size, job.report()
        assert rows_of(run) == whole[world_size]


def test_a_stop_at_the_start_is_recorded_although_it_is_delivered_twice(command, tmp_path):
    """Slurm signals the ranks and the launcher, which passes it on while the first is being recorded."""
    job = command(
        2, ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs"], env={"SIGNAL": "twice 0 15"}
    )
    assert job.wait() == [75, 75], job.report()
    record = record_of(only_run(tmp_path / "runs"))
    assert (record["status"], record["reason"]) == ("stopped", "SIGTERM before the first step"), job.report()


def collectives(folder):
    """What rank 0 counted in each step."""
    lines = (folder / "collectives.jsonl").read_text().splitlines()
    return {row["step"]: row["calls"] for row in map(json.loads, lines)}


def test_the_agreement_costs_no_collective(command, tmp_path):
    """LCH-02: neither in the steps before the signal nor in those after it is there one more."""
    config = config_of(tmp_path, train__log_every="never")
    steps = []
    for place, environ in (("stopped", {"SIGNAL": "step 1 15"}), ("whole", {})):
        overrides = ["--set", "hooks.counting={}", "--set", 'train.evaluate_every="never"']
        job = command(2, ["run", config, "--runs-dir", tmp_path / place, *overrides], env=environ)
        assert job.wait() == ([75, 75] if environ else [0, 0]), job.report()
        steps.append(collectives(only_run(tmp_path / place)))
    stopped, whole = steps
    assert max(stopped) in (4, 5) and stopped == {step: whole[step] for step in stopped}
    assert whole[2] == whole[3] == {}


def until_writing(job, folder):
    """Wait for the first write of a checkpoint and give its step."""
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, job.report()
        for file in folder.glob("runs/*/writing"):
            if step := int(file.read_text() or 0):
                return step
        time.sleep(0.01)


def test_no_signal_cuts_the_last_checkpoint_short(command, tmp_path):
    """LCH-02: while it is written, or waited for, a second signal ends no rank, whoever had the first."""
    config = write_config(
        tmp_path,
        components=[*BASE["components"], str(PARTS.with_name("saving.py"))],
        train__epochs=100,
        hooks={"slow": {"seconds": 0.05}, "held_disk": {}},
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    begun(job)
    job.kill(1, signal.SIGTERM)
    step = until_writing(job, tmp_path)
    time.sleep(1.1)  # else it would be the same request, delivered twice
    for rank in (0, 1, 0, 1):
        job.kill(rank, signal.SIGTERM)
    time.sleep(0.3)  # for a process that wrongly ended
    assert job.statuses() == {}, job.report()
    folder = only_run(tmp_path / "runs")
    (folder / "go").touch()
    assert job.wait(timeout=30) == [75, 75], job.report()
    assert steps_of(folder) == [step] == [record_of(folder)["steps"]]


def test_a_signal_to_another_rank_is_no_second_one(command, tmp_path):
    """LCH-02: torchrun ends the others by SIGTERM when a rank leaves, which must not cut their stop short.

    Rank 1 has the first one after step 4, and rank 0, which knows of it by then, is still in that step.
    """
    config = config_of(tmp_path)
    slow = ["--set", "hooks.slow={seconds=2.5, only=4, ranks='main'}"]
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs", *slow], env={"SIGNAL": "step 1 15"})
    deadline = time.monotonic() + 60
    while not any("step=4" in file.read_text() for file in tmp_path.glob("runs/*/journal-0.txt")):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.01)
    time.sleep(1.2)
    job.kill(0, signal.SIGTERM)
    assert job.wait(timeout=30) == [75, 75], job.report()
    assert steps_of(only_run(tmp_path / "runs")) == [3, 4], job.report()
