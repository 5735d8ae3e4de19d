"""``pipeline sweep --optuna``: real studies of real runs."""

from __future__ import annotations

import builtins
import errno
import fcntl
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from pipeline.api.trial import HandedTrial, open_storage
from pipeline.cli.children import Children
from pipeline.cli.grid import Axis
from pipeline.cli.optimise import goal_of
from pipeline.cli.space import Interval, read_space
from pipeline.cli.study import open_study
from pipeline.components.hooks.optuna_pruning import OptunaPruning
from pipeline.errors import ConfigError
from tiny_runs import TINY, call

DEADLINE = 120.0  # seconds, on a loaded machine

PARTS = """\
import json, os, time
from pathlib import Path
import torch
from pipeline import Hook, Metric, register

@register("metric", "told")
class Told(Metric):
    def __init__(self, value: float):
        super().__init__()
        self.told = self.add_state("told", torch.tensor(value, dtype=torch.float64), "max")

    def update(self, outcome):
        pass

    def compute(self):
        return self.told

@register("hook", "moody")
class Moody(Hook):
    def on_step_end(self, run):
        time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
        if '"number": 1,' in os.environ.get("PIPELINE_OPTUNA_TRIAL", ""):
            time.sleep(float(os.environ.get("SECOND_TRIAL_SECONDS", 0)))
        if run.step == int(os.environ.get("KILL_AT", -1)):
            os.kill(os.getpid(), 9)
        if "EDIT" in os.environ:
            file, was, edited = json.loads(os.environ["EDIT"])
            text = Path(file).read_text()
            Path(file).write_text(text.replace(was, edited))
        if run.step == 4 and "STOP_FOR" in os.environ:
            run.stop(os.environ["STOP_FOR"])
        if float(os.environ.get("FAIL_ABOVE", 1)) < run.metrics.get("eval/told", 0):
            raise OSError("no such luck")
"""

SEARCH = ["--search", "metrics.told.value=float(0, 1)"]


@pytest.fixture
def config(tmp_path):
    """A run whose metric to better is what the config says."""
    (tmp_path / "parts.py").write_text(PARTS)
    text = TINY.replace('monitor = "eval/accuracy"', 'monitor = "eval/told"')
    text += "[hooks.moody]\n[metrics.told]\nvalue = 0.0\n"
    (tmp_path / "tiny.toml").write_text(f'components = ["parts.py"]\n{text}')
    return tmp_path / "tiny.toml"


@contextmanager
def optuna_study(runs_dir):
    """The only study there, as Optuna itself reads it."""
    import optuna

    (file,) = runs_dir.glob("sweeps/*/study.db")
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
    yield optuna.load_study(study_name=file.parent.name, storage=storage)
    storage.remove_session()
    storage.engine.dispose()


def trials(runs_dir):
    with optuna_study(runs_dir) as study:
        return study.get_trials()


def record(runs_dir, name):
    return json.loads((runs_dir / name / "run.json").read_text())


def run_names(runs_dir):
    return sorted(folder.name for folder in runs_dir.glob("tiny-*"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("optimizer.lr=log(1e-4,1e-1)", Interval("optimizer.lr", "log", 1e-4, 1e-1)),
        ("a = float( -1 , 2.5 )", Interval("a", "float", -1.0, 2.5)),
        ("seed=int(0, 9)", Interval("seed", "int", 0, 9)),
        ("model.activation=relu,gelu", Axis("model.activation", ("relu", "gelu"))),
        ("model.hidden=[64, 64],[128]", Axis("model.hidden", ("[64, 64]", "[128]"))),
        ("seed=1..3", Axis("seed", ("1", "2", "3"))),
    ],
)
def test_a_space_is_an_interval_or_a_choice(text, expected):
    assert read_space([text]) == [expected]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["lr"], "--search: 'lr': has no key or no '='; expected KEY=V1,V2 or KEY=int(LOW, HIGH)"),
        (["lr=uniform(0, 1)"], "column 4: 'uniform' is none of int, float, log; expected "),
        (["lr=log(0, 1)"], "column 8: the logarithm of 0.0 is not defined; LOW has to be above 0"),
        (["lr=float(1, 0.5)"], "column 13: HIGH is 0.5, which is not above LOW, 1.0"),
        (["seed=int(0, 1.5)"], "column 13: '1.5' is no whole number"),
        (["lr=float(0, many)"], "column 13: 'many' is no finite number"),
        (["lr=float(0, inf)"], "column 13: 'inf' is no finite number"),
        (["lr=float(0)"], "column 10: float takes two numbers, LOW and HIGH"),
        (["lr=float(0, 1, 2)"], "column 10: float takes two numbers, LOW and HIGH"),
        (["lr=float(0, 1"], "column 14: ')' is missing"),
        (["a=1", "a=2"], "--search a: is given twice; expected one --search of a key"),
    ],
)
def test_a_wrong_space_says_what_is_wrong_and_where(texts, message):
    with pytest.raises(ConfigError, match=r"--search") as caught:
        read_space([*texts, "seed=int(9, 0)"])
    assert message in str(caught.value)
    assert "HIGH is 0" in str(caught.value), "all faults at once"


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


def test_trials_are_ordinary_runs_and_bad_ones_are_pruned(config, tmp_path):
    """Every trial's value is its run's best; one below the median of the complete ones ends at once."""
    runs = tmp_path / "runs"
    words = ["sweep", config, *SEARCH, "--set", "hooks.optuna_pruning={startup_trials=1}", "--runs-dir", runs]
    done = call(*words, "--optuna", 5)
    assert done.exit_code == 0, done.stderr
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
    assert f"eval/told {max(complete):.6g} with metrics.told.value={max(complete)}" in done.stderr
    again = call(*words, "--optuna", 5)
    assert again.exit_code == 0
    assert "5 trials are there already" in again.stderr
    assert len(run_names(runs)) == 5


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


@pytest.mark.parametrize("words", [["--optuna", 3, *SEARCH], ["--grid", "metrics.told.value=0.1,0.2,0.3"]])
@pytest.mark.parametrize(
    ("file", "was", "edited"),
    [("tiny.toml", "lr = 0.1", "lr = 0.3"), ("parts.py", "run.step == 4", "run.step == 3")],
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


@pytest.mark.parametrize("name", ["a?b", "{}", "100%3f #1"])
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


def test_a_grid_runs_what_a_study_has_pruned_its_whole_length(config, tmp_path):
    runs = tmp_path / "runs"
    words = ["--set", "hooks.optuna_pruning={startup_trials=1}", "--runs-dir", runs]
    assert call("sweep", config, "--optuna", 4, *SEARCH, *words).exit_code == 0
    pruned = next(trial for trial in trials(runs) if trial.state.name == "PRUNED")
    grid = f"metrics.told.value={pruned.params['metrics.told.value']}"
    for times in range(2):
        done = call("sweep", config, "--grid", grid, *words)
        assert done.exit_code == 0, done.stderr
        assert ("complete already" in done.stderr) is (times == 1)
    assert len(run_names(runs)) == 5
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
