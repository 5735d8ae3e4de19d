"""``pipeline sweep --optuna``: real studies of real runs."""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from pipeline.api.trial import HandedTrial, open_storage
from pipeline.cli.children import Children
from pipeline.cli.optimise import goal_of
from pipeline.cli.space import read_space
from pipeline.cli.study import open_study
from pipeline.components.hooks.optuna_pruning import OptunaPruning
from searches import SEARCH, optuna_study, record, run_names, trials, write_config
from tiny_runs import call

PRUNING = ["--set", "hooks.optuna_pruning={startup_trials=1}"]
DEADLINE = 120.0  # seconds, on a loaded machine


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--optuna", "2"], "--optuna has nothing to choose: give --search"),
        (["--optuna", "2", "--grid", "seed=1,2"], "write --search KEY=V,.. in the place of --grid"),
        (["--search", "seed=1,2"], "as --optuna 20"),
        ([], "nothing to vary"),
        (["--optuna", "2", "--search", "train.steps=int(0, 4)"], "--set train.steps: got 0; expected"),
        (["--optuna", "2", "--search", "model.activation=relu,rleu"], "did you mean 'relu'"),
        (["--optuna", "2", *SEARCH, "--unset", "hooks.checkpoint"], "names no metric to better; expected "),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_before_anything_runs(config, tmp_path, words, message):
    result = call("sweep", config, *words, "--runs-dir", tmp_path / "runs")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_missing_optuna_is_told_with_its_remedy(config, tmp_path, monkeypatch):
    real = builtins.__import__

    def without_optuna(name, *rest):
        if name.partition(".")[0] == "optuna":
            raise ModuleNotFoundError("No module named 'optuna'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_optuna)
    result = call("sweep", config, "--optuna", 1, *SEARCH, "--runs-dir", tmp_path / "runs")
    assert result.exit_code == 2
    assert result.stderr == "error: --optuna needs the package optuna: pip install 'pipeline-ddp[optuna]'\n"


@dataclass(frozen=True)
class Searched:
    """A sweep of trials of which some were pruned, and what it said."""

    config: Path
    runs: Path
    done: Result


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("searched")
    config, runs = write_config(folder), folder / "runs"
    done = call("sweep", config, "--optuna", 5, *SEARCH, *PRUNING, "--runs-dir", runs)
    assert done.exit_code == 0, done.stderr
    return Searched(config, runs, done)


def test_trials_are_ordinary_runs_and_bad_ones_are_pruned(searched):
    """Every trial's value is its run's best; one below the median of the complete ones ends at once."""
    runs = searched.runs
    complete: list[float] = []
    for trial in trials(runs):
        run, value = record(runs, trial.user_attrs["run"]), trial.params["metrics.told.value"]
        assert trial.value == value
        assert run["status"] == "completed"
        if complete and value < statistics.median(complete):
            assert (trial.state.name, run["steps"]) == ("PRUNED", 2)
            assert run["reason"].startswith("pruned: eval/told")
            assert trial.intermediate_values == {0: value}
        else:
            assert (trial.state.name, run["steps"]) == ("COMPLETE", 4)
            assert run["best"]["value"] == value
            assert trial.intermediate_values == {0: value, 1: value}
            complete.append(value)
    assert 1 < len(complete) < 5, "some were pruned"
    assert len(run_names(runs)) == 5
    with optuna_study(runs) as study:
        assert study.best_value == max(complete)
    best = f"eval/told {max(complete):.6g} with metrics.told.value={max(complete)}"
    assert best in searched.done.stderr
    words = [*SEARCH, *PRUNING, "--runs-dir", runs]
    again = call("sweep", searched.config, "--optuna", 5, *words)
    assert again.exit_code == 0
    assert "5 trials are there already" in again.stderr
    assert len(run_names(runs)) == 5


def test_pruned_runs_stand_in_the_table(searched):
    runs = searched.runs
    assert {trial.state.name for trial in trials(runs)} == {"COMPLETE", "PRUNED"}
    shown = {line.split()[0]: line for line in searched.done.stdout.splitlines()[1:]}
    assert sorted(shown) == run_names(runs)
    for trial in trials(runs):
        assert str(2 if trial.state.name == "PRUNED" else 4) in shown[trial.user_attrs["run"]].split()


def test_a_trial_that_waits_is_the_next_one(config, tmp_path):
    """As one that the user has queued with Optuna, or a killed sweep of an earlier version has left."""
    runs = tmp_path / "runs"
    words = ["sweep", config, *SEARCH, "--runs-dir", runs]
    assert call(*words, "--optuna", 1).exit_code == 0
    with optuna_study(runs) as study:
        study.enqueue_trial({"metrics.told.value": 0.25})
    assert call(*words, "--optuna", 2).exit_code == 0
    found = trials(runs)
    assert [trial.state.name for trial in found] == ["COMPLETE", "COMPLETE"]
    assert found[1].value == 0.25


def test_a_grid_runs_what_a_study_has_pruned_its_whole_length(searched, tmp_path):
    runs = shutil.copytree(searched.runs, tmp_path / "runs")
    pruned = next(trial for trial in trials(runs) if trial.state.name == "PRUNED")
    grid = f"metrics.told.value={pruned.params['metrics.told.value']}"
    for times in range(2):
        done = call("sweep", searched.config, "--grid", grid, *PRUNING, "--runs-dir", runs)
        assert done.exit_code == 0, done.stderr
        assert ("complete already" in done.stderr) is (times == 1)
    assert len(run_names(runs)) == 6
    assert sorted(record(runs, name)["steps"] for name in run_names(runs)[-1:]) == [4]


def test_a_resumed_trial_is_judged_by_what_it_has_done(tmp_path):
    """What it told before it was killed, of evaluations that it is to do again, says nothing yet."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file = tmp_path / "study.db"
    with open_storage(file) as storage:
        study = optuna.create_study(study_name="one", storage=storage, direction="maximize")
        rival, trial = study.ask(), study.ask()
        for step in range(2):
            rival.report(0.5, step)
        study.tell(rival, 0.5)
        trial.report(0.1, 0)
        trial.report(0.9, 1)
    hook = OptunaPruning(startup_trials=1)
    reasons: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for key, value in HandedTrial(str(file), "one", 1, "eval/told").environment().items():
            patch.setenv(key, value)
        hook.on_run_start(SimpleNamespace())
        for value in (0.1, 0.9):
            hook.on_evaluate_end(SimpleNamespace(metrics={"eval/told": value}, stop=reasons.append))
            if value == 0.1:
                assert len(reasons) == 1
    assert len(reasons) == 1, "with its second evaluation it is above the median"


@pytest.mark.soak
def test_a_killed_sweep_goes_on_without_repeating_a_complete_trial(config, tmp_path):
    """SIGKILL while the second trial runs; what it leaves running is waited for, not started twice."""
    runs = tmp_path / "runs"
    words = ["sweep", str(config), "--optuna", "3", *SEARCH, "--runs-dir", str(runs)]
    sweep = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *words], env={**os.environ, "STEP_SECONDS": "2.5"}
    )
    deadline = time.monotonic() + DEADLINE
    while len(run_names(runs)) < 2:
        assert time.monotonic() < deadline
        assert sweep.poll() is None
        time.sleep(0.05)
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    first, second = sorted(run_names(runs), key=lambda name: record(runs, name)["created"])
    before = record(runs, first)
    assert before["status"] == "completed"
    again = call(*words)
    assert again.exit_code == 0, again.stderr
    assert f"is running already, as {runs / second}" in again.stderr
    found = trials(runs)
    assert [trial.state.name for trial in found] == ["COMPLETE"] * 3
    assert [trial.user_attrs["run"] for trial in found[:2]] == [first, second]
    assert len({trial.user_attrs["run"] for trial in found}) == len(run_names(runs)) == 3
    assert record(runs, first) == before, "not run again"
    assert [len(record(runs, name)["attempts"]) for name in run_names(runs)] == [1, 1, 1]
    assert [trial.value for trial in found] == [trial.params["metrics.told.value"] for trial in found]


def test_equal_trials_at_the_same_time_are_told_of_runs_that_have_ended(config, tmp_path, monkeypatch):
    """The one that ends first has the older folder; the other has no value yet."""
    runs = tmp_path / "runs"
    monkeypatch.setenv("SECOND_TRIAL_SECONDS", "1.5")
    words = ["--optuna", 2, "--jobs", 2, "--search", "metrics.told.value=0.5", "--runs-dir", runs]
    done = call("sweep", config, *words)
    assert done.exit_code == 0, done.stderr
    found = trials(runs)
    assert [(trial.state.name, trial.value) for trial in found] == [("COMPLETE", 0.5)] * 2
    assert sorted(trial.user_attrs["run"] for trial in found) == run_names(runs), "each has a run of its own"


def test_a_hook_of_the_user_s_that_speaks_of_pruning_prunes_no_trial(config, tmp_path, monkeypatch):
    monkeypatch.setenv("STOP_FOR", "pruned 40 % of the weights")
    done = call("sweep", config, "--optuna", 1, *SEARCH, "--runs-dir", tmp_path / "runs")
    assert done.exit_code == 0, done.stderr
    assert [trial.state.name for trial in trials(tmp_path / "runs")] == ["COMPLETE"]


def test_a_folder_that_cannot_be_locked_is_told_as_that(config, tmp_path, monkeypatch):
    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    refused = call("sweep", config, "--optuna", 1, *SEARCH, "--runs-dir", tmp_path / "runs")
    assert refused.exit_code == 2
    assert "cannot be locked: No locks available; name a folder of another disk" in refused.stderr


def test_a_study_is_had_by_one_sweep_at_a_time(config, tmp_path):
    runs = tmp_path / "runs"
    space = read_space(SEARCH[1:])
    goal = goal_of(space, Children(config, (), (), runs, None))
    with open_study(goal.folder, space, goal.monitor):
        refused = call("sweep", config, "--optuna", 1, *SEARCH, "--runs-dir", runs)
    assert refused.exit_code == 2
    assert f"{goal.folder}: another sweep has this study; wait for its end, or stop it" in refused.stderr
