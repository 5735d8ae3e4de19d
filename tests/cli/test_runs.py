"""``pipeline runs``: the table, the filter and the order."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys

import pytest

from pipeline.cli.where import read_where
from pipeline.errors import RunError
from pipeline.runs.process import this_process
from tiny_runs import call, train, write_tiny


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A runs folder with lr 0.1, lr 0.2 and a longer run without the checkpoint hook, in this order."""
    folder = tmp_path_factory.mktemp("runs_command")
    config = write_tiny(folder)
    bare = folder / "bare.toml"
    bare.write_text((folder / "base.toml").read_text().partition("[hooks.checkpoint]")[0])
    runs = folder / "runs"
    first = train(config, runs)
    second = train(config, runs, "optimizer.lr=0.2", "name=other")
    third = train(bare, runs, "train.steps=6")
    return runs, [first, second, third]


@pytest.fixture
def runs(made, tmp_path):
    """A copy of them that a test may damage."""
    return shutil.copytree(made[0], tmp_path / "runs")


@pytest.fixture(scope="module")
def names(made):
    return [folder.name for folder in made[1]]


def listed(runs, *arguments):
    result = call("runs", "--runs-dir", runs, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def found(runs, *arguments):
    return [row["run"] for row in listed(runs, *arguments)]


def edit_record(run, **fields):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | fields))


def test_json_has_what_is_known_of_each_run(runs, names):
    rows = listed(runs)
    assert sorted(row["run"] for row in rows) == sorted(names)
    row = rows[names.index(names[1])]
    assert (row["name"], row["status"], row["steps"]) == ("other", "completed", 4)
    assert row["config"]["optimizer.lr"] == 0.2
    assert set(row["metrics"]) >= {"train/loss", "eval/loss", "eval/accuracy"}
    assert row["best"]["metric"] == "eval/accuracy"
    assert row["seconds"] > 0


def test_the_table_shows_only_the_config_keys_that_vary(runs):
    header, *lines = call("runs", "--runs-dir", runs).stdout.splitlines()
    assert len(lines) == 3
    assert {"optimizer.lr", "train.steps", "hooks.checkpoint.every"} <= set(header.split())
    assert not {"name", "optimizer.type", "train.global_batch_size"} & set(header.split())
    assert "0.2" in lines[1]


def test_csv_reads_back(runs, names):
    text = call("runs", "--runs-dir", runs, "--csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run"] for row in rows] == names
    assert [float(row["optimizer.lr"]) for row in rows] == [0.1, 0.2, 0.1]
    assert rows[2]["hooks.checkpoint.every"] == ""
    exact = [row["metrics"]["eval/loss"] for row in listed(runs)]
    assert [float(row["eval/loss"]) for row in rows] == exact


def test_a_run_whose_process_is_gone_is_interrupted(runs, names):
    edit_record(runs / names[0], status="running", pid=2**22 + 1, ended=None)
    assert listed(runs)[0]["status"] == "interrupted"


def test_a_broken_folder_is_listed_with_its_reason(runs, names):
    (runs / names[0] / "run.json").write_text("{")
    result = call("runs", "--runs-dir", runs)
    assert result.exit_code == 0
    (line,) = (line for line in result.stdout.splitlines() if line.startswith(names[0]))
    assert "broken" in line
    assert "is no record of a run" in line
    assert found(runs, "--where", "status == broken") == [names[0]]


def test_no_runs_is_no_error(tmp_path):
    result = call("runs", "--runs-dir", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs in" in result.stderr
    assert listed(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("optimizer.lr > 0.15", {1}),
        ("optimizer.lr <= 0.1 and steps == 4", {0}),
        ("optimizer.lr > 0.15 or steps == 6", {1, 2}),
        ("steps == 4 and optimizer.lr > 0.15 or steps == 6", {1, 2}),
        ("steps == 6 or steps == 4 and optimizer.lr > 0.15", {1, 2}),
        ("not (name == other)", {0, 2}),
        ("not not name == 'other'", {1}),
        ("status == completed", {0, 1, 2}),
        ("status != completed", set()),
        ("eval/loss < 1e9", {0, 1, 2}),
        ("hooks.checkpoint.mode == max", {0, 1}),  # a run that lacks the key is not meant
        ("not hooks.checkpoint.mode == max", {2}),
        ("train.deterministic == false", {0, 1, 2}),
        ("train.deterministic == 0", set()),  # false is not 0
        ("name > 3", set()),  # text and numbers have no order
        ('"optimizer.lr"==2e-1', {1}),
    ],
)
def test_where(made, names, expression, expected):
    assert set(found(made[0], "--where", expression)) == {names[number] for number in expected}


@pytest.mark.parametrize(
    ("expression", "column", "words"),
    [
        ("", 1, "expected a key"),
        ("optimizer.lr", 13, "got the end; expected one of <"),
        ("optimizer.lr >", 15, "expected a value"),
        ("(steps == 4", 12, "expected and, or, or ')'"),
        ("steps == 4 steps", 12, "got 'steps'"),
        ("steps == 4)", 11, "got ')'"),
        ("steps = 4", 7, "'=' cannot stand here"),
        ("steps == [1]", 10, "'[' cannot stand here"),
        ("steps == 4 and stepps > 1", 16, "did you mean 'steps'?"),
        ("(" * 60, 52, "nested deeper"),
        ("not " * 60 + "a == 1", 205, "nested deeper"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_column(made, expression, column, words):
    result = call("runs", "--runs-dir", made[0], "--where", expression)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"column {column}: " in result.stderr
    assert words in result.stderr


def test_an_expression_is_never_run():
    with pytest.raises(RunError):
        read_where("__import__('os').system('true') == 1")


def test_sort_and_limit(made, names):
    runs = made[0]
    assert found(runs, "--sort", "-optimizer.lr")[0] == names[1]
    assert found(runs, "--sort", "steps")[2] == names[2]
    assert found(runs, "--sort", "hooks.checkpoint.keep_last")[2] == names[2]  # it has none: last
    assert found(runs, "--sort", "-hooks.checkpoint.keep_last")[2] == names[2]
    assert found(runs, "--limit", 2) == names[1:]
    assert found(runs, "--limit", 1, "--sort", "-optimizer.lr") == [names[1]]


def test_sorting_by_a_metric_that_is_nan_puts_it_last(runs, names):
    edit_record(runs / names[0], metrics={"eval/loss": "NaN"})
    assert found(runs, "--sort", "eval/loss")[2] == names[0]
    assert listed(runs)[0]["metrics"]["eval/loss"] == "NaN"


def test_wrong_usage_is_refused(made):
    runs = made[0]
    assert call("runs", "--runs-dir", runs, "--json", "--csv").exit_code == 2
    unknown = call("runs", "--runs-dir", runs, "--sort", "stepps")
    assert unknown.exit_code == 2
    assert "did you mean 'steps'?" in unknown.stderr


def test_watching_shows_what_changes_until_no_run_is_left(runs, names):
    former = json.loads((runs / names[0] / "run.json").read_text())
    here = this_process()
    edit_record(
        runs / names[0],
        status="running", ended=None, pid=here.pid, process_started=here.started, process_table=here.table,
    )  # fmt: skip
    words = [sys.executable, "-m", "pipeline", "runs", "--watch", "--runs-dir", str(runs)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
        lines = [watching.stdout.readline() for _ in range(4)]
        assert names[0] in lines[1] and "running" in lines[1]
        (runs / names[0] / "run.json").write_text(json.dumps(former))
        rest = watching.stdout.read()
        assert watching.wait() == 0
    assert [("running" in line, "completed" in line) for line in rest.splitlines()[2:]] == [(False, True)] * 3


def test_watching_what_is_done_is_showing_it(runs, names):
    assert call("runs", "--watch", "--runs-dir", runs).stdout == call("runs", "--runs-dir", runs).stdout
