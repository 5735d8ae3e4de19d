"""``pipeline verify``, as a command: what it prints, how it ends, and what it leaves behind."""

from __future__ import annotations

import json

import pytest

from tiny_runs import call, write_tiny


@pytest.fixture
def config(tmp_path):
    return write_tiny(tmp_path / "config")


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
