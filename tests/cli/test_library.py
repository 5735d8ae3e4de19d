"""The public functions: they raise the errors, print nothing and never exit."""

from __future__ import annotations

import json

import pytest

import pipeline
from tiny_runs import train, write_tiny

LOCAL = """\
from torch import nn
from pipeline import register


@register("model", "line_of_library_test")
class Line(nn.Linear):
    def __init__(self, fail: bool = False) -> None:
        super().__init__(4, 3)
        if fail:
            raise ValueError("asked to fail")
"""


@pytest.fixture(scope="module")
def local_file(tmp_path_factory):
    """One file for all tests: a second one would be a second component of the name."""
    path = tmp_path_factory.mktemp("library") / "line_of_library_test.py"
    path.write_text(LOCAL)
    return path


@pytest.fixture
def config(local_file, tmp_path):
    return write_tiny(tmp_path, f'components = ["{local_file}"]\n[model]\ntype = "line_of_library_test"\n')


@pytest.fixture(autouse=True)
def silence(capfd):
    yield
    assert capfd.readouterr() == ("", "")


def test_run_trains_and_gives_the_record(config, tmp_path):
    record = pipeline.run(pipeline.load_config(config), runs_dir=tmp_path / "runs")
    assert (record.status, record.steps, record.world_size) == ("completed", 4, 1)
    assert set(record.metrics) >= {"train/loss", "eval/loss", "eval/accuracy"}
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["metrics"] == record.metrics
    assert record.components[0]["file_hash"]


def test_run_resumes_the_newest_of_the_experiment_or_a_named_one(config, tmp_path):
    folder = train(config, tmp_path / "runs")
    longer = pipeline.load_config(config, overrides=["train.steps=7"])
    record = pipeline.run(longer, resume=True, runs_dir=tmp_path / "runs")
    assert (record.steps, len(record.attempts)) == (7, 2)
    longest = pipeline.load_config(config, overrides=["train.steps=9"])
    record = pipeline.run(longest, resume=folder.name, runs_dir=tmp_path / "runs")
    assert (record.steps, record.attempts[-1].first_step) == (9, 8)
    assert len(list((tmp_path / "runs").iterdir())) == 1
    with pytest.raises(pipeline.RunError, match="no run 'nothing'"):
        pipeline.run(longest, resume="nothing", runs_dir=tmp_path / "runs")


def test_a_failing_run_raises_with_its_cause_and_is_recorded(config, tmp_path):
    failing = pipeline.load_config(config, overrides=["model.fail=true"])
    with pytest.raises(pipeline.RunError, match="asked to fail") as caught:
        pipeline.run(failing, runs_dir=tmp_path / "runs")
    assert isinstance(caught.value.__cause__, ValueError)
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"


def test_load_config_raises_all_problems(config):
    with pytest.raises(pipeline.ConfigError) as caught:
        pipeline.load_config(config, overrides=["optimizer.lr='x'", "train.stepps=1"])
    assert [problem.key for problem in caught.value.problems] == ["optimizer.lr", "train.stepps"]


def test_check_takes_a_config_or_a_path(config):
    report = pipeline.check(pipeline.load_config(config, overrides=["optimizer.lr=0.5"]), world_size=3)
    assert report.batches.shares == (3, 3, 2)
    assert report.config.plan.optimizer.arguments["lr"] == 0.5
    assert pipeline.check(config).components[0].type == "line_of_library_test"
    with pytest.raises(ValueError, match="world_size"):
        pipeline.check(config, world_size=0)


def test_diff_compares_runs_and_files(config, tmp_path):
    folder = train(config, tmp_path / "runs", "optimizer.lr=0.5")
    found = pipeline.diff(config, folder)
    assert [(row.key, row.values) for row in found.config] == [("optimizer.lr", (0.1, 0.5))]
    assert not found.same
    assert pipeline.diff(folder, folder).same
    with pytest.raises(pipeline.ConfigError):
        pipeline.diff(config, tmp_path / "none.toml")
    with pytest.raises(pipeline.RunError):
        pipeline.diff(config, tmp_path / "none")
