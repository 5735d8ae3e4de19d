"""``pipeline check``: every problem of a config at once, or what would run."""

from __future__ import annotations

import json

import pytest

import pipeline
from tiny_runs import call, write_tiny

LOCAL = """\
from torch import nn

from pipeline import register


@register("model", "local_of_check_test")
class Local(nn.Module):
    def __init__(self, dropout: float = 0.25) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.body(inputs)
"""


@pytest.fixture
def config(tmp_path):
    return write_tiny(tmp_path)


def report(*arguments):
    result = call("check", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_all_problems_are_printed_with_their_places_and_nothing_is_made(config, tmp_path):
    config.write_text(config.read_text() + "[optimizer]\nlr = 'fast'\nmomentun = 0.9\n")
    before = sorted(tmp_path.iterdir())
    result = call("check", config, "--set", "train.stepps=3")
    assert (result.exit_code, result.stdout) == (2, "")
    first, second, third = result.stderr.splitlines()
    assert first.startswith(f"{config}:3:") and "optimizer.lr" in first
    assert second.startswith(f"{config}:4:") and "did you mean 'momentum'?" in second
    assert third.startswith("--set train.stepps") and "did you mean 'steps'?" in third
    assert sorted(tmp_path.iterdir()) == before


def test_problems_as_json(config):
    result = call("check", config, "--set", "model.hiden=3", "--unset", "objective", "--json")
    assert result.exit_code == 2
    problems = json.loads(result.stdout)["problems"]
    assert {problem["key"] for problem in problems} == {"model.hiden", "objective"}
    (unknown,) = (problem for problem in problems if problem["key"] == "model.hiden")
    assert (unknown["place"], unknown["nearest"]) == ("--set", "hidden")


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--resolved",)])
def test_a_missing_file_is_a_problem(tmp_path, arguments):
    assert call("check", tmp_path / "none.toml", *arguments).exit_code == 2


def test_the_resolved_config_loads_back_to_the_same_plan(config, tmp_path):
    result = call("check", config, "--set", "optimizer.lr=0.3", "--resolved")
    again = tmp_path / "again.toml"
    again.write_text(result.stdout)
    first, second = pipeline.load_config(config, overrides=["optimizer.lr=0.3"]), pipeline.load_config(again)
    assert second.tree == first.tree
    assert list(second.tree) == list(first.tree)
    assert second.plan.train == first.plan.train
    for before, after in zip(first.plan.parts(), second.plan.parts(), strict=True):
        assert (before.key, before.type, before.arguments) == (after.key, after.type, after.arguments)
    assert call("check", again, "--resolved").stdout == result.stdout


def test_the_table_says_where_each_value_comes_from(config):
    lines = call("check", config, "--set", "optimizer.lr=0.3").stdout.splitlines()
    origin = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("optimizer.")}
    assert origin["optimizer.lr"] == ["0.3", "--set"]
    assert origin["optimizer.type"][0] == '"sgd"'
    assert "base.toml:" in origin["optimizer.type"][1]
    assert origin["optimizer.momentum"][-1] == "default"


def test_components_come_with_distribution_and_version(config):
    rows = {row["key"]: row for row in report(config)["components"]}
    assert rows["optimizer"]["target"] == "torch.optim:SGD"
    assert rows["dataset.eval"]["distribution"] == "pipeline-ddp"
    assert all(row["version"] for row in rows.values())
    assert "sampler" in rows  # one that the config does not name


@pytest.mark.parametrize(
    ("world_size", "most", "shares", "microbatches"),
    [
        (1, None, [8], [1]),
        (3, None, [3, 3, 2], [1, 1, 1]),
        (3, 2, [3, 3, 2], [2, 2, 1]),
        (2, 1, [4, 4], [4, 4]),
    ],
)
def test_how_a_batch_is_dealt(config, world_size, most, shares, microbatches):
    extra = ["--set", f"train.max_microbatch_size={most}"] if most else []
    batches = report(config, "--world-size", world_size, *extra)["batches"]
    assert (batches["shares"], batches["microbatches"]) == (shares, microbatches)
    assert (batches["global_batch_size"], batches["eval_batch_size"]) == (8, 8)


def test_ranks_without_a_share_are_a_warning(config):
    few = ("--set", "train.eval_batch_size=2")
    assert report(config, "--world-size", 2, *few)["warnings"] == []
    result = call("check", config, "--world-size", 10, *few)
    assert result.exit_code == 0
    assert "train.global_batch_size = 8: of 10 ranks, 2 get no sample" in result.stderr
    assert "train.eval_batch_size = 2: of 10 ranks, 8 get no sample" in result.stderr
    assert "warning" not in result.stdout


def test_more_ranks_than_can_be_listed_are_refused(config):
    result = call("check", config, "--world-size", 10**11)
    assert result.exit_code == 2 and "1<=x<=1000000" in result.stderr


def test_hooks_in_order_and_the_monitor(config):
    document = report(config, "--set", "hooks.nan_guard={}", "--set", "hooks.lr_monitor={ranks='main'}")
    assert [(hook["name"], hook["ranks"]) for hook in document["hooks"]] == [
        ("checkpoint", None),
        ("nan_guard", None),
        ("lr_monitor", "main"),
    ]
    assert document["monitor"] == {"metric": "eval/accuracy", "mode": "max"}
    assert report(config, "--unset", "hooks.checkpoint")["monitor"] is None


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.dropout=0.1", "model.dropout = 0.1"),
        ("train.precision='bf16'", "train.precision"),
        ("loader.sample_seeds=false", "loader.sample_seeds"),
        ("distributed.buffers='mean'", "distributed.buffers"),
    ],
)
def test_what_limits_invariance_is_named(config, override, words):
    assert report(config)["limits"] == []
    (limit,) = report(config, "--set", override)["limits"]
    assert limit.startswith(words)


def test_local_components_are_listed_with_their_content(tmp_path):
    (tmp_path / "local_of_check_test.py").write_text(LOCAL)
    config = write_tiny(tmp_path, 'components = ["local_of_check_test.py"]\n')
    document = report(config, "--set", "model.type='local_of_check_test'")
    model = document["components"][0]
    assert (model["distribution"], len(model["file_hash"])) == (None, 64)
    assert model["target"].endswith("local_of_check_test.py:Local")
    assert document["limits"][0].startswith("model.dropout = 0.25")
    assert any("in_features" in warning for warning in document["warnings"])  # dropped: it takes no such


def test_a_drawn_seed_is_said(config):
    assert report(config, "--unset", "seed")["seed"] is None
    assert "drawn at the start" in call("check", config, "--unset", "seed").stdout


def test_a_value_that_json_cannot_hold_is_text(config):
    result = call("check", config, "--set", "optimizer.weight_decay=inf", "--json")
    assert json.loads(result.stdout, parse_constant=pytest.fail)["config"]["optimizer"]["weight_decay"] == (
        "Infinity"
    )
