"""``pipeline sweep``: all combinations, each once, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pipeline.cli.grid import read_grid
from pipeline.errors import ConfigError
from tiny_runs import TINY, call

DEADLINE = 60.0  # seconds, on a loaded machine

SLOW = """\
import os, time
from pipeline import Hook, register

@register("hook", "slow")
class Slow(Hook):
    def on_step_end(self, run):
        time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path / "tiny.toml"


def statuses(runs_dir):
    """(learning rate, seed, status) of every run there."""
    result = call("runs", "--runs-dir", runs_dir, "--json")
    rows = [
        (row["config"]["optimizer.lr"], row["config"]["seed"], row["status"])
        for row in json.loads(result.stdout)
    ]
    return sorted(rows)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a=1"], [("a=1",)]),
        (["a=1,2", "b=x,y"], [("a=1", "b=x"), ("a=1", "b=y"), ("a=2", "b=x"), ("a=2", "b=y")]),
        (["seed=0..2"], [("seed=0",), ("seed=1",), ("seed=2",)]),
        (["seed=-1..0,7"], [("seed=-1",), ("seed=0",), ("seed=7",)]),
        (["model.hidden=[64, 64],[128]"], [("model.hidden=[64, 64]",), ("model.hidden=[128]",)]),
        (["vars.text='a,b',\"c]\""], [("vars.text='a,b'",), ('vars.text="c]"',)]),
        (["hooks.ema={decay=0.9},{decay=0.99}"], [("hooks.ema={decay=0.9}",), ("hooks.ema={decay=0.99}",)]),
    ],
)
def test_a_grid_is_every_combination_in_order(texts, expected):
    assert read_grid(texts) == expected


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["lr"], "no '='"),
        (["=1"], "no key"),
        (["a=1,,2"], "empty value"),
        (["a="], "empty value"),
        (["a=[1,2"], "']' is missing"),
        (["a='1"], '"\'" is missing'),
        (["a=3..1"], "range 3..1 is empty"),
        (["a=0..99999"], "more than 10000 values"),
        (["a=1,1"], "a value twice"),
        (["a=1", "a=2"], "is given twice"),
        (["a=0..200", "b=0..200"], "these are 40401 runs"),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(texts, message):
    with pytest.raises(ConfigError, match=r"--grid") as caught:
        read_grid(texts)
    assert message in str(caught.value)


def test_a_sweep_runs_each_combination_once_and_repeats_none(config, tmp_path):
    """REQ-04 for many runs: the same command can be repeated until all are done."""
    runs = tmp_path / "runs"
    command = ["sweep", config, "--grid", "optimizer.lr=0.1,0.2", "--jobs", "2", "--runs-dir", runs]
    first = call(*command)
    assert first.exit_code == 0, first.stderr
    assert statuses(runs) == [(0.1, 1, "completed"), (0.2, 1, "completed")]
    assert first.stdout.count("completed") == 2
    again = call(*command, "--grid", "train.steps=4,8")
    assert again.exit_code == 0, again.stderr
    assert again.stderr.count("complete already") == 2, "runs of 4 steps are there, those of 8 are others"
    assert len(statuses(runs)) == 4


def test_all_combinations_are_checked_before_the_first_run(config, tmp_path):
    runs = tmp_path / "runs"
    result = call(
        "sweep", config, "--grid", "optimizer.lr=0.1,fast", "--grid", "seed=1,x", "--runs-dir", runs
    )
    assert result.exit_code == 2
    assert result.stderr.count("optimizer.lr") == 1
    assert result.stderr.count("seed") == 1
    assert not runs.exists()


def test_combinations_that_differ_in_nothing_are_refused(config, tmp_path):
    result = call("sweep", config, "--grid", "optimizer.lr=0.1,1e-1", "--runs-dir", tmp_path / "runs")
    assert result.exit_code == 2
    assert "optimizer.lr=1e-1 is the same experiment as optimizer.lr=0.1" in result.stderr


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_a_run_that_fails_leaves_the_others_alone(config, tmp_path, capfd, jobs):
    runs = tmp_path / "runs"
    (tmp_path / "parts.py").write_text(
        "from pipeline import Hook, register\n"
        f"@register('hook', 'picky{jobs}')\n"
        "class Picky(Hook):\n"
        "    def __init__(self, good: bool):\n"
        "        if not good:\n"
        "            raise OSError('no such thing')\n"
    )
    config.write_text(f'components = ["parts.py"]\n{TINY}\n[hooks.picky{jobs}]\ngood = true\n')
    result = call(
        "sweep", config, "--grid", f"hooks.picky{jobs}.good=false,true", "--jobs", jobs, "--runs-dir", runs
    )
    assert result.exit_code == 1, result.stderr
    assert [status for _, _, status in statuses(runs)] == ["completed", "failed"]
    assert "no such thing" in result.stderr + capfd.readouterr().err


@pytest.mark.soak
def test_a_stopped_sweep_goes_on_where_it_was(config, tmp_path):
    (tmp_path / "parts.py").write_text(SLOW)
    config.write_text(f'components = ["parts.py"]\n{TINY}\n[hooks.slow]\n')
    runs = tmp_path / "runs"
    words = ["sweep", str(config), "--grid", "optimizer.lr=0.1,0.2,0.3", "--set", "train.steps=30",
             "--jobs", "2", "--runs-dir", str(runs)]  # fmt: skip
    sweep = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *words], env={**os.environ, "STEP_SECONDS": "0.2"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + DEADLINE
    while len(list(runs.glob("*/checkpoints/last"))) < 2:
        assert time.monotonic() < deadline
        assert sweep.poll() is None
        time.sleep(0.05)
    sweep.send_signal(signal.SIGTERM)
    _, printed = sweep.communicate(timeout=DEADLINE)
    assert sweep.returncode == 75, printed
    assert "not started" in printed
    assert [status for _, _, status in statuses(runs)] == ["stopped", "stopped"]
    again = call(*words)
    assert again.exit_code == 0, again.stderr
    assert [status for _, _, status in statuses(runs)] == ["completed"] * 3


def test_a_launcher_is_refused(config, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    result = call("sweep", config, "--grid", "seed=1")
    assert result.exit_code == 2
    assert "without a launcher" in result.stderr
