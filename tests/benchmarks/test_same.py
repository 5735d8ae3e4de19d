"""The benchmarks compare like with like: the engine and the hand-written loops do the same mathematics.

The other frameworks are compared in the same way by ``python -m benchmarks same``, where they are installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from benchmarks.job import Job
from benchmarks.meter import Speed
from benchmarks.sides import best_loop, engine, tutorial_loop
from benchmarks.workloads import WORKLOADS

LOOPS = {"best": best_loop, "tutorial": tutorial_loop}


def train_by_hand(name: str, job: Job) -> None:
    LOOPS[name].train(job)


def job_in(folder: Path, workload: str, steps: int, *, timed: bool = False) -> Job:
    folder.mkdir()
    job = Job(workload, steps, timed, str(folder))
    job.write()
    return job


@pytest.mark.few
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_all_end_with_the_same_parameters(ranks, command, tmp_path, workload, world_size):
    jobs = {name: job_in(tmp_path / name, workload, 5) for name in (*LOOPS, "engine")}
    for name in LOOPS:
        ranks(world_size, train_by_hand, name, jobs[name])
    _, *arguments = engine.command(jobs["engine"], world_size)
    assert command(world_size, arguments).wait() == [0] * world_size
    best, tutorial, own = (load_file(jobs[name].result) for name in jobs)
    first = dict(enumerate(WORKLOADS[workload].make_model().parameters()))
    for name, parameter in best.items():
        way = (parameter - first[int(name)]).abs().max()
        assert way > 0
        assert (tutorial[name] - parameter).abs().max() < 1e-4 * way
        assert (own[name] - parameter).abs().max() < 1e-4 * way


def test_a_timed_loop_shuffles_and_counts_every_step(ranks, tmp_path):
    job = job_in(tmp_path / "job", "linear", 400, timed=True)
    ranks(1, train_by_hand, "best", job)
    speed = Speed.read(job.result)
    assert speed.steps == 400
    assert speed.steps_per_second >= speed.overall > 0
