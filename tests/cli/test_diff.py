"""``pipeline diff``: what makes a difference, section by section."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from tiny_runs import call, train, write_tiny

HOOK = '[hooks.nan_guard]\n[hooks.checkpoint]\nevery = "1 step"\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The config, and two runs of it that differ in the learning rate and the name."""
    folder = tmp_path_factory.mktemp("diff_command")
    config = write_tiny(folder)
    runs = folder / "runs"
    return config, train(config, runs), train(config, runs, "optimizer.lr=0.2", "name=other")


@pytest.fixture
def runs(made, tmp_path):
    """Copies of the two runs that a test may change, of the same name in different folders."""
    return [
        shutil.copytree(run, tmp_path / f"copy{n}" / run.name) for n, run in enumerate((made[1], made[1]))
    ]


def edit_record(run, **fields):
    record = json.loads((run / "run.json").read_text())
    for key, value in fields.items():
        record[key] = record[key] | value if isinstance(record[key], dict) else value
    (run / "run.json").write_text(json.dumps(record))


def difference(*sides):
    """The document, with the exit status that goes with it."""
    result = call("diff", *sides, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == (0 if document["same"] else 1)
    return document


def rows(document, section):
    return {row["key"]: row["values"] for row in document[section]}


def test_a_run_is_the_same_as_itself(made):
    document = difference(made[1], made[1])
    assert document["same"]
    assert not any(document[section] for section in ("config", "components", "code", "environment"))
    assert "no difference" in call("diff", made[1], made[1]).stdout


def test_what_was_set_is_the_difference_and_the_name_is_none(made):
    document = difference(made[1], made[2])
    assert rows(document, "config") == {"optimizer.lr": [0.1, 0.2]}
    assert document["labels"] == [made[1].name, made[2].name]


def test_runs_are_found_by_name(made):
    result = call("diff", "tiny", "other", "--runs-dir", made[1].parent, "--json")
    assert json.loads(result.stdout)["labels"] == [made[1].name, made[2].name]


def test_results_come_with_the_change_in_percent_and_make_no_difference(runs):
    edit_record(runs[0], metrics={"eval/loss": 0.5}, steps=4)
    edit_record(runs[1], metrics={"eval/loss": 0.4}, steps=6)
    document = difference(*runs)
    assert document["same"]
    (loss,) = (row for row in document["result"] if row["key"] == "eval/loss")
    assert loss["values"] == [0.5, 0.4]
    assert loss["percent"] == pytest.approx(-20)
    assert "-20 %" in call("diff", *runs).stdout


@pytest.mark.parametrize(
    ("section", "fields", "key"),
    [
        ("components", {"versions": {"acme-vision": "2.0"}}, "acme-vision"),
        ("components", {"versions": {"pipeline-ddp": "9.9"}}, "pipeline-ddp"),
        ("code", {"git": {"commit": "abc", "dirty": False}}, "commit"),
        ("environment", {"versions": {"torch": "1.0"}}, "torch"),
        ("environment", {"world_size": 2}, "world_size"),
        ("environment", {"host": "elsewhere"}, "host"),
        ("environment", {"device": "NVIDIA H200"}, "device"),
    ],
)
def test_each_section_but_the_result_makes_a_difference(runs, section, fields, key):
    edit_record(runs[1], **fields)
    document = difference(*runs)
    assert not document["same"]
    assert key in rows(document, section)
    others = {"config", "components", "code", "environment"} - {section}
    assert not any(document[other] for other in others)


def test_uncommitted_changes_are_noted(runs):
    for run in runs:
        edit_record(run, git={"commit": "abc", "dirty": True})
    document = difference(*runs)
    assert document["same"]
    assert "uncommitted changes" in document["notes"][0]


def test_recorded_uncommitted_changes_are_compared(runs):
    for run in runs:
        edit_record(run, git={"commit": "abc", "dirty": True})
        (run / "code.patch").write_text("-a\n+b\n")
    assert difference(*runs)["notes"] == []
    (runs[1] / "code.patch").write_text("-a\n+c\n")
    document = difference(*runs)
    assert not document["same"]
    assert list(rows(document, "code")) == ["code.patch"]
    (runs[1] / "code.patch").unlink()
    edit_record(runs[1], git={"commit": "abc", "dirty": False})
    assert set(rows(difference(*runs), "code")) == {"uncommitted changes", "code.patch"}


def test_a_changed_local_file_is_a_difference(tmp_path):
    sides = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        config = write_tiny(folder, 'components = ["part_of_diff.py"]\n')
        (folder / "part_of_diff.py").write_text(f"NUMBER = {number}\n")
        sides.append(config)
    document = difference(*sides)
    assert list(rows(document, "components")) == ["part_of_diff.py"]
    assert document["texts"] == {"part_of_diff.py": ["@@ -1 +1 @@", "-NUMBER = 1", "+NUMBER = 2"]}
    assert "-NUMBER = 1\n+NUMBER = 2\n" in call("diff", *sides).stdout
    assert "```diff\n--- part_of_diff.py\n" in call("diff", *sides, "--markdown").stdout
    (tmp_path / "2" / "part_of_diff.py").write_text("NUMBER = 1\n")
    assert difference(*sides)["same"]


def test_a_run_is_the_same_as_the_file_it_came_from(made):
    """Though defaults, a variable and an extended file stand in one of them alone."""
    document = difference(made[1], made[0])
    assert document["same"], document
    assert rows(document, "result")["steps"] == [4, None]


def test_a_drawn_seed_is_what_a_file_without_one_asks_for(made, tmp_path):
    text = (made[0].parent / "base.toml").read_text().replace("seed = 1\n", "", 1)
    config = tmp_path / "tiny.toml"
    config.write_text(text)
    drawn, fixed = train(config, tmp_path / "runs"), made[1]
    assert difference(drawn, config)["same"]
    assert list(rows(difference(fixed, config), "config")) == ["seed"]
    assert list(rows(difference(drawn, fixed), "config")) == ["seed"]


def test_a_default_that_is_written_out_is_no_difference(made, tmp_path):
    text = '[train]\nprecision = "fp32"\n[optimizer]\nmomentum = 0.0\n[loader]\nworkers = 0\n[sampler]\n'
    assert difference(made[0], write_tiny(tmp_path, text))["same"]
    assert not difference(made[0], write_tiny(tmp_path, "[optimizer]\nmomentum = 0.5\n"))["same"]


def test_files_that_are_not_valid_here_are_compared_as_they_are_written(made, tmp_path):
    other = write_tiny(tmp_path, '[model]\ntype = "acme-vision/resnet"\ndepth = 3\n')
    document = difference(made[0], other)
    assert rows(document, "config")["model.type"] == ["mlp", "acme-vision/resnet"]
    assert "without defaults" in document["notes"][0]


def test_a_file_of_nonsense_is_compared_too(made, tmp_path):
    config = tmp_path / "nonsense.toml"
    config.write_text('train = 3\nhooks = 4\nmodel = "x"\ndataset = [1]\n')
    document = difference(made[0], config)
    assert rows(document, "config")["hooks"][1] == 4
    assert rows(document, "config")["train"][1] == 3


def test_hooks_on_one_side_and_their_order(tmp_path):
    base = write_tiny(tmp_path / "a")
    document = difference(base, write_tiny(tmp_path / "b", "[hooks.nan_guard]\n"))
    assert set(rows(document, "config")) == {"hooks.nan_guard"}
    first = write_tiny(tmp_path / "c", '[hooks.nan_guard]\n[hooks.checkpoint]\nevery = "1 step"\n')
    text = (tmp_path / "a" / "base.toml").read_text()
    alone = tmp_path / "alone.toml"
    alone.write_text(text.replace('[hooks.checkpoint]\nevery = "2 steps"', HOOK))
    assert rows(difference(first, alone), "config")["hooks"] == [
        ["checkpoint", "nan_guard"],
        ["nan_guard", "checkpoint"],
    ]


def test_values_from_the_environment_are_neither_compared_nor_shown(tmp_path, monkeypatch):
    text = "[dataset.train]\ntype = 'tensors'\npath = '${oc.env:SECRET_PLACE}'\n"
    monkeypatch.setenv("SECRET_PLACE", "hidden-away")
    one, two = write_tiny(tmp_path / "one", text), write_tiny(tmp_path / "two", text)
    for place in ("hidden-away", None):
        if place is None:
            monkeypatch.delenv("SECRET_PLACE")
        document = difference(one, two)
        assert document["same"], document
        assert document["not_compared"] == ["dataset.train.path"]
        assert "hidden-away" not in json.dumps(document)
    assert "from the environment, not compared" in call("diff", one, two).stdout


def test_a_changed_type_shows_the_arguments_that_came_and_went(tmp_path):
    """Of the optimizer and of a hook; what both take alike stays out."""
    one = write_tiny(
        tmp_path, "[optimizer]\nmomentum = 0.9\n[hooks.watch]\ntype = 'throughput'\n", "one.toml"
    )
    two = write_tiny(
        tmp_path,
        "[optimizer]\ntype = 'adamw'\nlr = 0.1\nbetas = [0.9, 0.95]\n"
        "[hooks.watch]\ntype = 'early_stopping'\nmonitor = 'eval/loss'\n",
        "two.toml",
    )
    changed = rows(difference(one, two), "config")
    assert changed.pop("optimizer.type") == ["sgd", "adamw"]
    assert changed.pop("optimizer.weight_decay") == [0.0, 0.01], "both take it"
    assert changed.pop("hooks.watch.type") == ["throughput", "early_stopping"]
    went = {key: value for key, (value, after) in changed.items() if after is None}
    came = {key: value for key, (before, value) in changed.items() if before is None}
    assert went | came == {
        key: after if before is None else before for key, (before, after) in changed.items()
    }
    assert went["optimizer.momentum"] == 0.9 and went["optimizer.nesterov"] is False
    assert came["optimizer.betas"] == [0.9, 0.95] and came["hooks.watch.patience"] == 3
    assert "optimizer.lr" not in changed
    keys = [line.split() for line in call("diff", one, two).stdout.splitlines()]
    assert ["optimizer.type", '"sgd"', '"adamw"'] in keys
    assert ["optimizer.momentum", "0.9", "-"] in keys
    assert ["hooks.watch.patience", "-", "3"] in keys


def test_the_sides_have_colours_on_a_terminal_alone(made):
    _, run, other = made
    words = [sys.executable, "-m", "pipeline", "diff", str(run), str(other)]
    reader, writer = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    done = subprocess.run(words, stdout=writer, env=environment, check=False)
    os.close(writer)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert done.returncode == 1
    assert re.search(r"optimizer\.lr +\x1b\[31m0\.1\x1b\[0m +\x1b\[32m0\.2\x1b\[0m", shown)
    plain = subprocess.run(words, stdout=subprocess.PIPE, env=environment, check=False)
    assert b"\x1b" not in plain.stdout


def test_more_than_two_are_one_table(made):
    document = difference(made[1], made[2], made[0])
    assert rows(document, "config") == {"optimizer.lr": [0.1, 0.2, 0.1]}
    assert all(row["percent"] is None for row in document["result"])
    text = call("diff", made[1], made[2], made[0]).stdout
    (line,) = (line for line in text.splitlines() if line.startswith("optimizer.lr"))
    assert line.split() == ["optimizer.lr", "0.1", "0.2", "0.1"]


def test_markdown(made):
    lines = call("diff", made[1], made[2], "--markdown").stdout.splitlines()
    assert "### config" in lines
    assert "| optimizer.lr | 0.1 | 0.2 |" in lines
    assert f"| key | {made[1].name} | {made[2].name} |" in lines


def test_text_and_number_look_different(tmp_path):
    one = write_tiny(tmp_path / "a", "[model]\nhidden = 5\n")
    two = write_tiny(tmp_path / "b", "[model]\nhidden = '5'\n")
    (line,) = (line for line in call("diff", one, two).stdout.splitlines() if line.startswith("model.hidden"))
    assert line.split() == ["model.hidden", "5", '"5"']


@pytest.mark.parametrize(
    "sides", [["tiny"], ["tiny", "nothing-like-it"], ["tiny", "none.toml"], ["a/b", "tiny"]]
)
def test_trouble(made, sides):
    result = call("diff", *sides, "--runs-dir", made[1].parent)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/dev/null", "/dev/null: is a pipe or a device; save what it gives; "),
        ("notes.txt", "notes.txt: is no TOML file by its name; "),
        ("./notes.txt", "./notes.txt: is no TOML file by its name; "),
    ],
)
def test_what_is_no_run_and_no_toml_file_is_told_by_what_it_is(tmp_path, monkeypatch, name, says):
    config = write_tiny(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    result = call("diff", config, name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {says}expected a run, its folder, or a file that ends in .toml\n"


def test_a_damaged_config_is_trouble(runs):
    (runs[0] / "config.toml").write_text("= 3")
    result = call("diff", *runs)
    assert result.exit_code == 2
    assert "config.toml: cannot be read" in result.stderr


def test_json_and_markdown_exclude_each_other(made):
    assert call("diff", made[1], made[2], "--json", "--markdown").exit_code == 2


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_run_records_the_uncommitted_code_that_it_ran(tmp_path, monkeypatch):
    """REQ-15: commit, dirty flag, and a patch with untracked source; nothing secret is in it (TRK-04)."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("SECRET_PLACE", "hidden-away")
    config = write_tiny(
        tmp_path, 'components = ["part_of_patch.py"]\n[hooks.part]\ntoken = "${oc.env:SECRET_PLACE}"\n'
    )
    (tmp_path / "part_of_patch.py").write_text(
        "from pipeline import Hook, register\n"
        "@register('hook', 'part')\n"
        "class Part(Hook):\n"
        "    def __init__(self, token: str): ...\n"
    )
    (tmp_path / ".gitignore").write_text("secret\n")
    for words in ("init -q", "add .gitignore base.toml", "-c user.name=n -c user.email=e commit -qm x"):
        subprocess.run(["git", "-C", tmp_path, *words.split()], check=True)
    (tmp_path / "base.toml").write_text((tmp_path / "base.toml").read_text() + "# hidden-away, changed\n")
    run = train(config, tmp_path / "runs")
    patch = (run / "code.patch").read_text()
    assert "+class Part(Hook):" in patch
    assert "+# ${oc.env:SECRET_PLACE}, changed" in patch
    assert "hidden-away" not in patch
    assert json.loads((run / "run.json").read_text())["git"]["dirty"] is True
    again = train(config, tmp_path / "runs")
    assert (again / "code.patch").read_text() == patch, "the first run is no code"
