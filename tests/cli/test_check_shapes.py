"""``pipeline check``: what would fail in the run, found by shapes alone; what it would take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import pipeline
from tiny_runs import call, train, write_tiny

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "tests" / "support" / "parts" / "shape_parts.py"


@pytest.fixture
def config(tmp_path):
    return write_tiny(tmp_path, f'components = ["{PARTS}"]\n')


def checked(config, *overrides, world_size=1):
    """The JSON of a check that finds no problem."""
    sets = [word for override in overrides for word in _option(override)]
    result = call("check", config, *sets, "--world-size", world_size, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _option(override):
    return ("--set", override) if "=" in override else ("--unset", override)


def refused(config, *overrides, world_size=1):
    """The error lines of a check that ends with 2."""
    sets = [word for override in overrides for word in _option(override)]
    result = call("check", config, *sets, "--world-size", world_size)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return [line for line in result.stderr.splitlines() if not line.startswith("warning")]


MODEL, DATA, OBJECTIVE = (
    "model 'mlp'",
    "dataset 'random' (dataset.train, ",
    "objective 'cross_entropy'",
)


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        (
            ["model.in_features=5"],
            "model",
            [MODEL, DATA, "(float32 (8, 4), int64 (8,))", "layers.0 (Linear with weight float32 (5, 5)"],
        ),
        (
            ["dataset.train.classes", "dataset.train.target_shape=[3, 2]"],
            "objective",
            [OBJECTIVE, "what model 'mlp' (model, ", "float32 (8, 3)", DATA, "float32 (8, 3, 2)"],
        ),
        (
            ["objective.type=mse"],
            "objective",
            ["objective 'mse'", "what model 'mlp' (model, ", "float32 (8, 3)", "int64 (8,)"],
        ),
        (
            ["metrics.accuracy.k=9"],
            "metrics.accuracy",
            ["metric 'accuracy'", "what objective 'cross_entropy'", "float32 (6, 3)", "int64 (6,)"],
        ),
        (
            ["dataset.eval={type='random',length=6,input_shape=[7],classes=3}"],
            "model",
            [MODEL, "dataset 'random' (dataset.eval, ", "float32 (6, 7)"],
        ),
        (
            ["model={type='char_transformer',vocab_size=9}"],
            "model",
            ["model 'char_transformer'", DATA, "float32 (8, 4)", "tokens (Embedding with weight"],
        ),
        (["model={type='cannot_be_built'}"], "model", ["cannot be built: ValueError: width must be even"]),
        (
            ["model={type='names'}", "objective={type='squares'}", "metrics.accuracy", "hooks.checkpoint"],
            "objective",
            ["gives a loss that has no gradient"],
        ),
        (["optimizer.groups=[{params=['head.*'],lr=1.0}]"], "optimizer.groups", ["'head.*' matches no name"]),
        (["scheduler={type='one_cycle_lr',max_lr=[1.0,2.0,3.0]}"], "scheduler", ["max_lr"]),
    ],
)
def test_a_mismatch_names_the_two_components_and_their_shapes(config, overrides, key, words):
    (line,) = refused(config, *overrides)
    assert re.match(rf"\S+:\d+:\d+: {key}: |--set {key}: ", line), line
    for word in words:
        assert word in line, (word, line)


def test_a_mismatch_is_one_line_in_all(config):
    """In a process of its own: torch logs such errors by itself, past what is captured here."""
    command = [sys.executable, "-m", "pipeline", "check", config, "--set", "model.in_features=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr


def test_every_mismatch_is_told_at_once_and_as_json(config):
    overrides = ["--set", "metrics.accuracy.k=9", "--set", "scheduler={type='one_cycle_lr',max_lr=[1.0,2.0]}"]
    result = call("check", config, *overrides, "--json")
    assert result.exit_code == 2
    assert {problem["key"] for problem in json.loads(result.stdout)["problems"]} == {
        "metrics.accuracy",
        "scheduler",
    }


def test_what_needs_data_is_unchecked_and_not_wrong(config):
    document = checked(config, "model={type='branching'}")
    assert document["problems"] == []
    assert document["unchecked"][0]["key"] == "model"
    assert "DataDependent" in document["unchecked"][0]["reason"]
    assert (document["parameters"], document["memory"]["activations"]) == (15, None)
    text = call("check", config, "--set", "model={type='branching'}").stdout
    assert re.search(r"no problems found; \d unchecked", text)


def test_data_that_is_elsewhere_is_unchecked(config):
    missing = "dataset.train={type='tensors',inputs='x.npy',targets='y.npy'}"
    document = checked(config, missing)
    assert document["unchecked"][0]["key"] == "dataset.train"
    assert "there is no file" in document["unchecked"][0]["reason"]
    assert document["parameters"] and document["steps_per_epoch"] is None


def test_all_faults_of_a_config_come_first_and_no_dataset_is_built(config):
    """CFG-05: four faults and an override, with a dataset that takes a minute to build."""
    config.write_text(
        config.read_text()
        + "[model]\ntype = 'mlpp'\n[optimizer]\nlr = 'fast'\n[hooks.first]\ntype = 'ema'\n"
        + "[hooks.checkpoint]\nkeep_last = 0\n[dataset.train]\ntype = 'slow_to_build'\n"
    )
    begin = time.monotonic()
    lines = refused(config, "train.global_batch_size=-3")
    assert time.monotonic() - begin < 30
    assert len(lines) >= 4
    text = "\n".join(lines)
    assert "did you mean 'mlp'?" in text
    assert f"{config}:6:" in text and 'optimizer.lr: got "fast"' in text
    assert "hooks.checkpoint.keep_last: got 0" in text
    assert "--set train.global_batch_size: got -3" in text


def test_a_dataset_that_declares_its_shapes_is_not_built(config):
    overrides = ["dataset.train={type='never_built'}", "dataset.eval={type='never_built'}"]
    document = checked(config, *overrides)
    assert document["samples"] == {"train": 1000, "eval": 1000}
    assert (document["steps_per_epoch"], document["unchecked"]) == (125, [])
    (line, *_) = refused(config, *overrides, "model.in_features=9")
    assert "dataset 'never_built'" in line and "float32 (8, 4)" in line


def test_unused_parameters_are_named_on_one_process_and_refused_for_several(config):
    """HNG-03: a model with a head that is never used."""
    spare = "model={type='with_a_spare_head'}"
    document = checked(config, spare)
    assert document["unused"] == ["spare.weight", "spare.bias"]
    assert any("spare.weight, spare.bias" in warning for warning in document["warnings"])
    (line,) = refused(config, spare, world_size=2)
    assert "spare.weight, spare.bias" in line and "distributed.find_unused_parameters = true" in line
    assert checked(config, spare, "distributed.find_unused_parameters=true", world_size=2)["unused"]
    assert checked(config, spare, "model.freeze=['spare.*']", world_size=2)["unused"] == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("batch_norm", "model.norm (BatchNorm1d): its statistics"),
        ("mean", "model computes something of all samples"),
        ("pairs", "model compares the samples of a batch in pairs"),
        ("noise", "model draws random numbers"),
    ],
)
def test_what_a_sample_sees_of_others_is_named(config, how, words):
    plain = checked(config, "model={type='mixing',how='none'}")["limits"]
    limits = checked(config, f"model={{type='mixing',how='{how}'}}")["limits"]
    new = [limit for limit in limits if limit not in plain] or limits
    assert any(limit.startswith(words) for limit in new), limits


def test_a_contrastive_objective_is_named(config):
    assert checked(config)["limits"] == []
    limits = checked(config, "objective={type='contrast'}", "metrics.accuracy", "hooks.checkpoint")["limits"]
    assert limits[0].startswith("objective compares the samples of a batch in pairs")


def test_steps_checkpoints_and_shares_follow_the_world_size(config):
    document = checked(config, "hooks.checkpoint.every='3 steps'", world_size=3)
    assert (document["steps_per_epoch"], document["total_steps"]) == (3, 4)
    assert document["batches"]["shares"] == [3, 3, 2]
    assert (document["checkpoints"]["written"], document["checkpoints"]["kept"]) == (2, 2)
    assert checked(config, "hooks.checkpoint.every='1 epoch'")["checkpoints"]["written"] == 2
    assert checked(config, "hooks.checkpoint.every='never'")["checkpoints"]["written"] == 1


def test_the_disk_that_checkpoints_need_is_what_a_run_takes(config, tmp_path):
    big = ["model.hidden=[300,300]", "optimizer={type='adamw'}"]
    told = checked(config, *big)["checkpoints"]
    folder = train(config, tmp_path / "runs", *big)
    sizes = [
        sum(file.stat().st_size for file in checkpoint.iterdir())
        for checkpoint in (folder / "checkpoints").glob("step-*")
    ]
    assert len(sizes) == told["kept"]
    assert sizes[0] == pytest.approx(told["bytes_each"], rel=0.05)


def test_nothing_is_made_and_random_states_stay(config, tmp_path):
    before, state = sorted(tmp_path.iterdir()), torch.get_rng_state()
    report = pipeline.check(config)
    assert report.rehearsal.parameters == 43
    assert torch.equal(torch.get_rng_state(), state)
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(pipeline.ConfigError, match="does not take what dataset 'random'"):
        pipeline.check(pipeline.load_config(config, overrides=["model.in_features=9"]))


@pytest.mark.parametrize("path", ["pipeline.toml", "examples/digits_convnet.toml"])
def test_an_example_takes_less_than_5_s_of_computing_beside_torch(path):
    program = (
        "import sys, time, torch\n"
        "begin = time.process_time()\n"
        "from pipeline.cli.main import main\n"
        "main(['check', sys.argv[1]], standalone_mode=False)\n"
        "print(time.process_time() - begin, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(done.stderr.splitlines()[-1]) < 5


@pytest.mark.parametrize(
    "path", ["pipeline.toml", "examples/digits_convnet.toml", "examples/char_transformer.toml"]
)
def test_the_resolved_config_of_an_example_loads_back(path, tmp_path):
    """REQ-11: what ``check --resolved`` prints is a config equal to the one that was checked."""
    again = tmp_path / "again.toml"
    again.write_text(call("check", ROOT / path, "--resolved").stdout)
    first, second = pipeline.load_config(ROOT / path), pipeline.load_config(again)
    assert second.tree == first.tree
    assert call("check", again, "--resolved").stdout == again.read_text()


def test_only_one_module_knows_fake_tensors():
    sources = (ROOT / "pipeline").rglob("*.py")
    users = [path.name for path in sources if "torch._subclasses" in path.read_text()]
    assert users == ["shapes.py"]
