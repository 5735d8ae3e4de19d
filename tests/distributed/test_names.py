"""Names of runs and metrics, whatever they are: a folder each, nothing outside it, the name kept as given."""

from __future__ import annotations

import csv
import json
import re

import pytest

from pipeline.runs.layout import parse_folder_name
from tiny_runs import TINY, call

AT_ONCE = 10

PARTS = """\
import os, time
from pathlib import Path
from pipeline import Hook, register

@register("hook", "far_names")
class FarNames(Hook):
    def on_evaluate_end(self, run):
        run.log("../../up", 1.0)
        run.log("/etc/deep/er", 2.0)

here = os.environ.get("MEETING")
if here:  # all runs begin at the start of the same second
    Path(here, str(os.getpid())).touch()
    while len(list(Path(here).iterdir())) < int(os.environ["AT_ONCE"]):
        time.sleep(0.01)
    time.sleep(1 - time.time() % 1)
"""


@pytest.fixture
def config(tmp_path):
    """In a folder two below the one that is looked at, so that ``..`` would show."""
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    (folder / "parts.py").write_text(PARTS)
    (folder / "tiny.toml").write_text(f'components = ["parts.py"]\n{TINY}')
    return folder / "tiny.toml"


def start(command, config, *words, env=None):
    arguments = ["run", config.name, "--runs-dir", "runs", *words]
    return command(1, arguments, cwd=config.parent, launcher=False, env=env)


def record(run):
    return json.loads((run / "run.json").read_text())


def paths(folder):
    """What is there, but for the runs' own folders."""
    return {
        path for path in folder.rglob("*") if "__pycache__" not in path.parts and "runs" not in path.parts
    }


@pytest.mark.parametrize(
    "name",
    ["-rf *", "$(touch owned);`id`|&", "a..b:c?d%e", "größe e\u0301 模型 🙂", "x" * 100, "~", "con", "tiny"],
)
def test_a_hostile_name_is_a_folder_in_runs_and_is_kept(command, config, tmp_path, name):
    before = paths(tmp_path)
    job = start(command, config, f"--name={name}")
    assert job.wait() == [0], job.report()
    assert paths(tmp_path) == before
    (run,) = (config.parent / "runs").iterdir()
    assert parse_folder_name(run.name)
    assert re.fullmatch(r"[\w.+=@-]+", run.name) and not run.name.startswith(("-", "."))
    assert record(run)["name"] == name
    (row,) = json.loads(call("runs", "--runs-dir", config.parent / "runs", "--json").stdout)
    assert row["name"] == name
    found = call("diff", "--runs-dir", config.parent / "runs", "--", name, run)
    assert found.exit_code == 0, "it is found by its name"


@pytest.mark.parametrize("name", ["../up", "a/b", "a\\b", ".hidden", "..", "a\nb", "", " ", "x" * 101])
def test_a_name_that_cannot_be_one_is_refused(command, config, tmp_path, name):
    before = paths(tmp_path)
    job = start(command, config, f"--name={name}")
    assert job.wait() == [2], job.report()
    assert job.stderr(0).startswith("--name: got ")
    assert paths(tmp_path) == before
    assert not (config.parent / "runs").exists()


def test_ten_runs_of_one_second_have_a_folder_each(command, config, tmp_path):
    """The same config and the same explicit name, all at once, and once more afterwards."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    env = {"MEETING": str(meeting), "AT_ONCE": str(AT_ONCE)}
    jobs = [start(command, config, "--name", "same", env=env) for _ in range(AT_ONCE)]
    for job in jobs:
        assert job.wait() == [0], job.report()
    runs = sorted((config.parent / "runs").iterdir())
    names = [parse_folder_name(run.name) for run in runs]
    assert len(runs) == AT_ONCE
    assert max(name.copy for name in names if name) > 1, "some had the same second"
    assert {record(run)["name"] for run in runs} == {"same"}
    assert {record(run)["status"] for run in runs} == {"completed"}
    assert all(len(list((run / "checkpoints").iterdir())) > 2 for run in runs)
    again = start(command, config, "--name", "same")
    assert again.wait() == [0], again.report()
    assert len(list((config.parent / "runs").iterdir())) == AT_ONCE + 1


def test_a_metric_of_any_name_stays_in_the_run_folder(command, config, tmp_path):
    config.write_text(f"{config.read_text()}\n[hooks.far_names]\n[hooks.csv]\n")
    before = paths(tmp_path)
    job = start(command, config)
    assert job.wait() == [0], job.report()
    assert paths(tmp_path) == before
    (run,) = (config.parent / "runs").iterdir()
    far = {"../../up": 1.0, "/etc/deep/er": 2.0}
    assert far.items() <= record(run)["metrics"].items()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert any(far.items() <= row.items() for row in rows)
    with (run / "metrics.csv").open(newline="") as file:
        assert [row["/etc/deep/er"] for row in csv.DictReader(file)][-1] == "2.0"
