"""``pipeline sweep --optuna`` where runs fail or are killed, and files are edited or broken."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from searches import SEARCH, record, run_names, trials, write_config
from tiny_runs import call


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


def test_a_trial_that_fails_counts_and_is_not_tried_again(config, tmp_path, monkeypatch):
    """The sweep ends after N trials, whatever they come to; the same command tells of them again."""
    runs = tmp_path / "runs"
    words = ["sweep", config, *SEARCH, "--jobs", 2, "--runs-dir", runs]
    monkeypatch.setenv("FAIL_ABOVE", "0")
    first = call(*words, "--optuna", 2)
    assert first.exit_code == 1, first.stderr
    assert first.stderr.count("failed with exit status 1") == 2
    monkeypatch.delenv("FAIL_ABOVE")
    again = call(*words, "--optuna", 2)
    assert again.exit_code == 1, again.stderr
    for result in (first, again):
        for trial in trials(runs):
            told = f"[trial {trial.number}] metrics.told.value={trial.params['metrics.told.value']}: "
            assert f"{told}OSError: no such luck; run {trial.user_attrs['run']}\n" in result.stderr
    assert sorted(trial.user_attrs["run"] for trial in trials(runs)) == run_names(runs)
    more = call(*words, "--optuna", 3)
    assert more.exit_code == 1, "two of the three have failed"
    assert [trial.state.name for trial in trials(runs)] == ["FAIL", "FAIL", "COMPLETE"]
    assert sorted(len(record(runs, name)["attempts"]) for name in run_names(runs)) == [1, 1, 1]


def test_a_run_that_was_killed_is_gone_on_with(config, tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    words = ["sweep", config, "--optuna", 1, *SEARCH, "--runs-dir", runs]
    monkeypatch.setenv("KILL_AT", "3")
    first = call(*words)
    assert first.exit_code == 1, first.stderr
    assert "killed by signal 9" in first.stderr
    assert [trial.state.name for trial in trials(runs)] == ["RUNNING"]
    monkeypatch.delenv("KILL_AT")
    second = call(*words)
    assert second.exit_code == 0, second.stderr
    assert [trial.state.name for trial in trials(runs)] == ["COMPLETE"]
    assert [len(record(runs, name)["attempts"]) for name in run_names(runs)] == [2]


SEARCHED, GRID = ["--optuna", 3, *SEARCH], ["--grid", "metrics.told.value=0.1,0.2,0.3"]
CONFIG, PART = ("tiny.toml", "lr = 0.1", "lr = 0.3"), ("parts.py", "run.step == 4", "run.step == 3")


@pytest.mark.parametrize(
    ("words", "file", "was", "edited"),
    [
        (SEARCHED, *CONFIG),
        (GRID, *PART),
        pytest.param(SEARCHED, *PART, marks=pytest.mark.soak),
        pytest.param(GRID, *CONFIG, marks=pytest.mark.soak),
    ],
)
def test_an_edit_in_the_middle_ends_the_sweep(config, tmp_path, monkeypatch, words, file, was, edited):
    """Trials that began with the text as it was are told of; none begins with another experiment."""
    runs = tmp_path / "runs"
    monkeypatch.setenv("EDIT", json.dumps([str(tmp_path / file), was, edited]))
    first = call("sweep", config, *words, "--runs-dir", runs)
    assert first.exit_code == 2, first.stderr
    assert f"{file}: was edited while the sweep went on, which would mix two experiments; " in first.stderr
    assert len(run_names(runs)) == 1
    monkeypatch.delenv("EDIT")
    (tmp_path / file).write_text((tmp_path / file).read_text().replace(edited, was))
    second = call("sweep", config, *words, "--runs-dir", runs)
    assert second.exit_code == 0, second.stderr
    assert len(run_names(runs)) == 3


def test_an_edit_that_changes_nothing_does_not_end_the_sweep(config, tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT", json.dumps([str(config), "lr = 0.1", "lr = 1e-1  # the same"]))
    done = call("sweep", config, "--optuna", 2, *SEARCH, "--runs-dir", tmp_path / "runs")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    ["100%3f #1", pytest.param("a?b", marks=pytest.mark.soak), pytest.param("{}", marks=pytest.mark.soak)],
)
def test_a_runs_folder_may_have_any_name(config, tmp_path, name):
    runs = tmp_path / name
    words = ["sweep", config, *SEARCH, "--set", "hooks.optuna_pruning={startup_trials=1}", "--runs-dir", runs]
    done = call(*words, "--optuna", 1)
    assert done.exit_code == 0, done.stderr
    (file,) = runs.glob("sweeps/*/study.db")
    with closing(sqlite3.connect(file)) as study:
        assert study.execute("SELECT count(*) FROM trial_intermediate_values").fetchone() == (2,)


def test_a_study_that_cannot_be_read_is_told_with_its_file(config, tmp_path):
    runs = tmp_path / "runs"
    words = ["sweep", config, *SEARCH, "--optuna", 1, "--runs-dir", runs]
    assert call(*words).exit_code == 0
    (file,) = runs.glob("sweeps/*/study.db")
    file.write_bytes(file.read_bytes()[:8192])
    refused = call(*words)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: {file}: the study cannot be read or written: ")
    assert "database disk image is malformed; complete runs are kept and not run again if" in refused.stderr
    file.unlink()
    anew = call(*words)
    assert anew.exit_code == 0, anew.stderr
    assert len(run_names(runs)) == 1


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("v2.6.0.a", "optuna storage upgrade --storage sqlite:///{file}"),
        pytest.param("v99.0.0.a", "pip install -U optuna", marks=pytest.mark.soak),
    ],
)
def test_a_study_of_another_version_of_optuna_is_told_with_its_file(config, tmp_path, version, remedy):
    runs = tmp_path / "runs"
    words = ["sweep", config, *SEARCH, "--optuna", 1, "--runs-dir", runs]
    assert call(*words).exit_code == 0
    (file,) = runs.glob("sweeps/*/study.db")
    with closing(sqlite3.connect(file)) as study, study:
        study.execute("UPDATE alembic_version SET version_num = ?", [version])
    refused = call(*words)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: {file}: the study is of another version of Optuna: ")
    assert remedy.format(file=file) in refused.stderr
    assert "complete runs are kept and not run again if it is moved away" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_run_without_its_metric_is_told_with_the_key(config, tmp_path, monkeypatch):
    """One that stopped before its first evaluation, and one whose metric is no number."""
    runs = tmp_path / "runs"
    words = ["sweep", config, "--optuna", 1, "--runs-dir", runs]
    monkeypatch.setenv("STOP_FOR", "enough")
    late = ["train.steps=10", "train.evaluate_every=9 steps", "train.log_every=1 step"]
    failed = call(*words, *SEARCH, *(word for one in late for word in ("--set", one)))
    assert failed.exit_code == 1
    assert "failed: it has no eval/told; expected what hooks.checkpoint.monitor names to be" in failed.stderr
    failed = call(*words, "--search", "metrics.told.value=nan")
    assert failed.exit_code == 1
    assert "failed: its eval/told is nan; expected what hooks.checkpoint.monitor names to be" in failed.stderr
