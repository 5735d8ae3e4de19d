"""Ranks that were not started with the same, or have not built the same, are found before the first step."""

from __future__ import annotations

import os
import runpy
import sys

import pytest

from pipeline.cli import records
from runs_of import PARTS, only_run, record_of, write_config

PROMPTLY = 30.0  # seconds on a busy machine


def config_of(folder, **changes):
    return write_config(
        folder,
        components=[str(PARTS), str(PARTS.with_name("unlike.py"))],
        model={"type": "unlike"},
        dataset={
            "train": {"type": "unlike", "name": "train"},
            "eval": {"type": "unlike", "name": "eval"},
        },
        **changes,
    )


BUILT = [
    ("name", "model", ["model: layer.bias (3,) float32 rank 0", "(none) rank 1"]),
    ("type", "model", ["model: layer.weight (3, 8) float32 rank 0", "(3, 8) float64 rank 1"]),
    ("frozen", "model", ["model: layer.bias (3,) float32 rank 0", "(3,) float32, frozen rank 1"]),
    ("buffer", "model", ["model: mean (none) rank 0", "(2,) float32 rank 1"]),
    ("train length", "dataset.train", ["dataset.train: length 40 rank 0", "30 rank 1"]),
    ("eval length", "dataset.eval", ["dataset.eval: length 40 rank 0", "30 rank 1"]),
]


@pytest.mark.parametrize(("unlike", "component", "says"), BUILT, ids=[case[0] for case in BUILT])
def test_ranks_that_have_built_different_things(command, tmp_path, unlike, component, says):
    job = command(
        2,
        ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs"],
        env={"UNLIKE": unlike},
        end_together=False,
    )
    assert job.wait(timeout=PROMPTLY) == [1, 1], job.report()
    text = " ".join((job.stderr(0) + job.stderr(1)).split())
    assert text.count("the ranks have built different things:") == 1 and "Traceback" not in text, text
    record = record_of(only_run(tmp_path / "runs"))
    assert record["status"] == "failed" and record["steps"] == 0
    assert record["failure"]["component"] == component
    for words in says:
        assert words in " ".join(record["failure"]["message"].split()) and words in text


def start(by_rank, torch_on_rank_1=None):
    """``pipeline`` with other arguments on each rank."""
    rank = int(os.environ["RANK"])
    if torch_on_rank_1 is not None and rank == 1:
        records.version = lambda name: torch_on_rank_1
    sys.argv = ["pipeline", *map(str, by_rank[rank])]
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)


def refused(job):
    """What is said, once, by ranks that do not begin."""
    statuses = job.wait(timeout=PROMPTLY)
    assert statuses[0] == 1 and statuses[1] != 0, job.report()
    text = job.stderr(0) + job.stderr(1)
    assert text.count("error: the ranks were not started with the same:") == 1, text
    return " ".join(text.split())


def test_ranks_with_other_configs(spawn, tmp_path):
    """Each host has a copy of its own, and one was edited; nothing is made before the table is shown."""
    first = ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs"]
    change = ["--set", "optimizer.lr=0.2", "--set", "hooks.progress={}"]
    text = refused(spawn(2, start, [first, [*first, *change]]))
    assert "optimizer.lr 0.1 rank 0 0.2 rank 1" in text
    assert "hooks.progress." in text and "(none) rank 0" in text
    assert not (tmp_path / "runs").exists()


def test_ranks_with_other_versions(spawn, tmp_path):
    first = ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs"]
    text = refused(spawn(2, start, [first, first], "1.2.3"))
    assert "version of torch 2." in text and " rank 0 1.2.3 rank 1" in text and "optimizer" not in text


def test_ranks_with_other_local_files(spawn, tmp_path):
    """The file's name is the same, its text is not."""
    copies = [tmp_path / "here" / "unlike.py", tmp_path / "there" / "unlike.py"]
    for number, copy in enumerate(copies):
        copy.parent.mkdir()
        copy.write_text(PARTS.with_name("unlike.py").read_text() + "\n" * number)
    first = ["run", config_of(tmp_path), "--runs-dir", tmp_path / "runs", "--set"]
    by_rank = [[*first, f'components=["{copy}"]'] for copy in copies]
    text = refused(spawn(2, start, by_rank))
    assert "sha256 of unlike.py" in text and text.count("rank 1") == 1


def test_an_evaluation_with_other_configs(spawn, trained):
    _, run = trained
    first = ["evaluate", run]
    text = refused(spawn(2, start, [first, [*first, "--set", "train.eval_batch_size=3"]]))
    assert "train.eval_batch_size" in text and "rank 1" in text


def test_paths_and_what_the_environment_gives_may_differ(spawn, tmp_path):
    """Hosts have folders of their own."""
    config = config_of(tmp_path, vars={"place": "${oc.env:RANK}"})
    first = ["run", config, "--runs-dir", tmp_path / "runs"]
    job = spawn(2, start, [first, first])
    assert job.wait() == [0, 0], job.report()
