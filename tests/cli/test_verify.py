"""``pipeline verify``, as a command: what it prints, how it ends, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from planted_faults import PLANTED
from tiny_runs import call, write_tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path):
    return write_tiny(tmp_path / "config")


def verify(folder, *arguments, temporary):
    """``pipeline verify ARGUMENTS`` in a process of its own, in a folder."""
    environ = os.environ | {"TMPDIR": str(temporary), "TRIALS_OF": str(temporary)}
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", "verify", *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started_by(temporary):
    """The processes of that verification that are still there."""
    mark, found = f"TRIALS_OF={temporary}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:  # gone, or going
            continue
    return found


def test_a_config_of_built_ins_keeps_all_promises(config):
    result = call("verify", config, "--set", "train.steps=8", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["passed"] is True
    assert document["problems"] == []
    assert document["world_sizes"] == [1, 2]
    assert {check["name"]: check["verdict"] for check in document["checks"]} == dict.fromkeys(
        ["runs", "gradients", "invariance", "once", "determinism", "resume", "items", "state"], "passed"
    )


def test_a_wrong_config_ends_before_anything_is_run(config):
    result = call("verify", config, "--set", "model.width=3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--set model.width: unknown argument" in result.stderr


def test_the_problems_of_a_config_as_json(config):
    result = call("verify", config, "--set", "model.width=3", "--json")
    assert result.exit_code == 2
    (problem,) = json.loads(result.stdout)["problems"]
    assert problem["key"] == "model.width"


@pytest.mark.parametrize("sizes", ["", "0,1", "2,2", "two"])
def test_world_sizes_are_different_numbers(config, sizes):
    result = call("verify", config, "--world-sizes", sizes)
    assert result.exit_code == 2
    assert "is no list of different numbers of processes" in result.stderr


def test_steps_are_at_least_two(config):
    assert call("verify", config, "--steps", "1").exit_code == 2


def test_a_launcher_is_not_wanted(config, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    result = call("verify", config)
    assert result.exit_code == 2
    assert "run it without a launcher" in result.stderr


@pytest.fixture
def temporary():
    """A temporary folder of a short name: the path of a socket may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        yield Path(folder)


def test_a_broken_promise_with_its_component_line_and_remedy_and_nothing_left_behind(tmp_path, temporary):
    """In a folder of the user's, with a local file of the user's."""
    folder = tmp_path / "mine"
    write_tiny(
        folder,
        'components = ["parts.py"]\n[hooks.counting_hook]\n[train]\nsteps = 4\n',
        name="mine.toml",
    )
    shutil.copy(next(file for file in PLANTED if "watching" in file.name), folder / "parts.py")
    before = sorted(folder.rglob("*"))
    process = verify(folder, "mine.toml", "--steps", "4", "--world-sizes", "1", temporary=temporary)
    output, log = process.communicate()
    assert process.returncode == 1, log
    lines = output.splitlines()
    assert lines[0].split() == ["promise", "result", "what", "was", "compared"]
    (row,) = [line for line in lines if line.startswith("hooks and metrics keep no state that is lost")]
    assert "failed" in row
    findings = [line.strip() for line in lines if line.startswith("  ")]
    assert len(findings) == 1, output
    (finding,) = findings
    assert finding.startswith(
        "hooks.counting_hook (counting_hook, mine.toml:3:8): its state_dict does not hold"
    )
    assert finding.endswith("return what changes from state_dict, and take it back in load_state_dict")
    assert lines[-1] == "mine.toml: 1 of 7 promises broken; 1 not looked at"
    assert "killed after step 3 with one process" in log
    assert sorted(folder.rglob("*")) == before
    assert [*temporary.glob("pipeline-*")] == []


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        numbers = [signal.SIGINT]
        numbers += [signal.SIGKILL, signal.SIGTERM] * metafunc.config.getoption("--soak")
        metafunc.parametrize("number", numbers, ids=lambda one: one.name)


def test_all_processes_end_with_the_command(tmp_path, temporary, number):
    """In the middle of a trial, two processes of which wait for ever."""
    called = tmp_path / "called"
    config = write_tiny(
        tmp_path / "config",
        f"components = {[str(file) for file in PLANTED]}\n[hooks.endless]\nfile = '{called}'\n",
    )
    process = verify(tmp_path, config, "--world-sizes", "2", temporary=temporary)
    while not called.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    assert len(started_by(temporary)) >= 5  # the command, two nurseries, two ranks
    process.send_signal(number)
    output, log = process.communicate()
    assert output == ""
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert (process.returncode, log.splitlines()[-1]) == (1, "Aborted!")
        assert [*temporary.glob("pipeline-*")] == []
    deadline = time.monotonic() + 60
    while left := started_by(temporary):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
