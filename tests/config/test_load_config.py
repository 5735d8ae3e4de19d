"""A valid config: what becomes of it, and that it survives being written and read again."""

from __future__ import annotations

import datetime
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pipeline.api.period import Period
from pipeline.config.config import fingerprint, identity, to_toml
from pipeline.config.layers import read
from pipeline.config.merge import merged_without_schemas


def test_defaults_are_filled_in_and_written_out(load_config) -> None:
    config = load_config()
    assert config.plan.name == "pipeline"
    assert config.plan.seed == 7
    assert config.plan.model.arguments == {
        "in_features": 64,
        "hidden": [128, 64],
        "out_features": 10,
        "activation": "relu",
    }
    assert config.plan.sampler.type == "shuffle"
    assert config.plan.train.evaluate_every == Period(1, "epoch")
    assert config.plan.distributed.timeout == datetime.timedelta(minutes=10)
    assert config.tree["train"]["log_every"] == "50 steps"
    assert config.tree["distributed"]["timeout"] == "10 min"
    assert config.tree["distributed"]["prepare_timeout"] == "1 h"
    assert config.tree["train"]["stop_signals"] == ["TERM", "INT"]
    assert "steps" not in config.tree["train"]


def test_canonical_order_but_hooks_in_the_files_order(load_config, valid) -> None:
    hooks = "[hooks.progress]\n[hooks.ema]\n[hooks.checkpoint]\n"
    config = load_config(hooks + "[metrics.top5]\ntype='accuracy'\nk=5\n" + valid.replace("seed = 7", ""))
    assert list(config.tree) == [
        "name", "model", "dataset", "objective", "optimizer", "sampler",
        "metrics", "train", "loader", "distributed", "hooks",
    ]  # fmt: skip
    assert list(config.tree["metrics"]) == ["accuracy", "top5"]
    assert list(config.tree["hooks"]) == ["progress", "ema", "checkpoint"]
    assert list(config.tree["model"])[:2] == ["type", "in_features"]


FULL = """
name = "full"
components = ["extra.py"]
[vars]
classes = 10
host = "${oc.env:TEST_HOST}"
[model]
type = "mlp"
out_features = "${vars.classes}"
hidden = [8, "${vars.classes}"]
weights = "start.safetensors"
freeze = ["encoder.*"]
[dataset.train]
type = "table"
url = "http://${vars.host}/\\\\${x}"
columns = ["a", "${oc.env:TEST_COLUMN,b}"]
rows = "${oc.env:TEST_ROWS}"
[dataset.eval]
type = "digits"
path = "data/digits"
[objective]
type = "cross_entropy"
label_smoothing = 0
[optimizer]
type = "adamw"
lr = 1e-2
[[optimizer.groups]]
params = ["*.bias"]
weight_decay = 0.0
[scheduler]
type = "warmup_cosine"
monitor = "eval/loss"
[metrics.accuracy]
[train]
steps = 50
global_batch_size = 64
clip_grad_norm = 1
[distributed]
timeout = "1.5 s"
[hooks.uploader]
token = "s3cret"
url = "\\\\${not.one} ???"
[hooks.checkpoint]
monitor = "eval/accuracy"
ranks = "all"
"""


@pytest.fixture
def environment(monkeypatch) -> None:
    monkeypatch.setenv("TEST_HOST", "example.org")
    monkeypatch.setenv("TEST_ROWS", "5")


def test_written_config_loads_to_the_same(load_config, environment, monkeypatch) -> None:
    first = load_config(FULL, files={"extra.py": "# nothing"})
    text = to_toml(first, 3)
    monkeypatch.setenv("HOOKS_UPLOADER_TOKEN", "another")
    second = load_config(text, files={"elsewhere/x": ""})
    assert fingerprint(second, 3) == fingerprint(first, 3)
    assert identity(second, drawn_seed=True) == identity(first, drawn_seed=True)
    assert to_toml(second, 3) == text
    assert second.plan.model.arguments == first.plan.model.arguments
    assert second.plan.datasets["train"].arguments == first.plan.datasets["train"].arguments
    assert second.plan.groups == first.plan.groups
    assert second.plan.weights == first.plan.weights
    assert second.plan.distributed == first.plan.distributed


def test_text_from_the_environment_is_never_written(load_config, environment, tmp_path) -> None:
    config = load_config(FULL, files={"extra.py": ""})
    text = to_toml(config, 3)
    assert config.plan.datasets["train"].arguments["url"] == "http://example.org/${x}"
    assert "example.org" not in text
    assert config.tree["dataset"]["train"]["url"] == "http://${vars.host}/\\${x}"
    assert config.tree["dataset"]["train"]["columns"] == ["a", "${oc.env:TEST_COLUMN,b}"]
    assert config.tree["dataset"]["train"]["rows"] == 5, "a number is written as it is"
    assert config.tree["vars"] == {"host": "${oc.env:TEST_HOST}"}, "vars stay where they are referred to"


def test_a_secret_is_never_written(load_config) -> None:
    config = load_config(
        FULL.replace("${vars.host}", "h")
        .replace('"${oc.env:TEST_ROWS}"', "5")
        .replace('host = "${oc.env:TEST_HOST}"', ""),
        "hooks.uploader.token=t0ken",
        files={"extra.py": ""},
    )
    assert "s3cret" not in to_toml(config, 1)
    assert "t0ken" not in to_toml(config, 1)
    assert config.overrides == ("--set hooks.uploader.token=***",)
    assert config.plan.hooks["uploader"].arguments["token"] == "t0ken"


def test_the_fingerprint_sees_values_and_order_but_no_names_and_paths(load_config, valid) -> None:
    def print_of(text: str = valid, *sets: str, seed: int = 1) -> str:
        return fingerprint(load_config(text, *sets), seed)

    base = print_of()
    assert print_of(valid, "name=other") == base
    assert print_of(valid, "dataset.eval.path=elsewhere") == print_of(valid, "dataset.eval.path=here")
    assert print_of(valid, "optimizer.lr=0.001") == base, "the default, said"
    assert print_of(valid, "optimizer.lr=0.002") != base
    assert print_of(seed=2) != base
    hooks = [
        print_of(valid + a + b)
        for a, b in (("[hooks.ema]\n", "[hooks.progress]\n"), ("[hooks.progress]\n", "[hooks.ema]\n"))
    ]
    assert hooks[0] != hooks[1]


def test_the_identity_leaves_out_what_takes_effect_on_resume(load_config, valid) -> None:
    base = identity(load_config())
    for change in ("train.epochs=9", "loader.workers=2", "hooks.ema={}", "train.log_every=1 step"):
        assert identity(load_config(valid, change)) == base, change
    for change in ("optimizer.lr=9.0", "model.hidden=[1]", "seed=8", "train.precision=bf16"):
        assert identity(load_config(valid, change)) != base, change
    assert identity(load_config(valid, "seed=8"), drawn_seed=True) == identity(load_config(), drawn_seed=True)


def test_layers_later_wins_tables_merge_arrays_replace(load_config, valid) -> None:
    child = """
extends = ["base/a.toml", "base/b.toml"]
[model]
hidden = [1]
[train]
steps = 5
"""
    files = {
        "base/a.toml": valid,
        "base/b.toml": "[optimizer]\nlr = 0.5\n[model]\nin_features = 3\nhidden=[7, 7]",
    }
    config = load_config(child, files=files)
    assert config.plan.model.arguments["hidden"] == [1]
    assert config.plan.model.arguments["in_features"] == 3
    assert config.plan.optimizer.arguments["lr"] == 0.5
    assert (config.plan.train.epochs, config.plan.train.steps) == (None, 5), "a later length replaces"
    assert [source.path.name for source in config.sources] == ["a.toml", "b.toml", "pipeline.toml"]
    assert str(config.places["optimizer.lr"]) == "base/b.toml:2:1"
    assert str(config.places["train.steps"]) == "pipeline.toml:6:1"


def test_relative_paths_belong_to_the_file_that_says_them(load_config, valid, tmp_path) -> None:
    files = {"base/a.toml": valid + "[hooks.ema]\n", "base/deep/c.py": "# a component"}
    files["base/a.toml"] = 'components = ["deep/c.py"]\n' + files["base/a.toml"].replace(
        'split = "test"', 'path = "digits.csv"'
    )
    config = load_config('extends = "base/a.toml"\n', files=files)
    assert config.plan.datasets["eval"].arguments["path"] == tmp_path / "base/digits.csv"
    assert config.plan.components == (tmp_path / "base/deep/c.py",)
    assert [source.text for source in config.sources if source.path.suffix == ".py"] == [b"# a component"]
    config = load_config(valid, "dataset.eval.path=digits.csv")
    assert config.plan.datasets["eval"].arguments["path"] == tmp_path / "digits.csv"


@pytest.mark.parametrize("sets", [
    ("optimizer.type=sgd", "optimizer.momentum=0.9", "train.steps=3"),
    ("train.steps=3", "optimizer.momentum=0.9", "optimizer.type=sgd"),
])  # fmt: skip
def test_the_order_of_overrides_does_not_matter(load_config, valid, sets) -> None:
    config = load_config(valid, *sets)
    assert config.plan.optimizer.type == "sgd"
    assert config.plan.optimizer.arguments["momentum"] == 0.9
    assert config.plan.train.steps == 3


def test_overrides_add_remove_and_replace_tables(load_config, valid) -> None:
    with_hooks = valid + "[hooks.progress]\n[hooks.ema]\ndecay = 0.5\n"
    config = load_config(with_hooks, "hooks.checkpoint={keep_last=5}", unsets=["hooks.progress"])
    assert list(config.plan.hooks) == ["ema", "checkpoint"]
    assert config.plan.hooks["checkpoint"].arguments["keep_last"] == 5
    config = load_config(with_hooks, "hooks.ema={}", unsets=["hooks.ema"])
    assert config.plan.hooks["ema"].arguments["decay"] == 0.999, "taken out first, then set anew"
    config = load_config(with_hooks, "optimizer.lr=1", "optimizer.lr=2", "name=plain text")
    assert config.plan.optimizer.arguments["lr"] == 2.0, "of the same key the last counts"
    assert config.plan.name == "plain text"
    groups = valid + '[[optimizer.groups]]\nparams = ["*"]\nlr = 1.0\n'
    config = load_config(groups, "optimizer.groups.0.lr=3")
    assert config.plan.groups[0].options == {"lr": 3.0}


SGD = """
[optimizer]
type = "sgd"
lr = 0.25
momentum = 0.9
nesterov = true
"""


def test_a_changed_type_drops_what_the_new_one_does_not_take(load_config, valid) -> None:
    text = valid.replace('[optimizer]\ntype = "adamw"', SGD)
    config = load_config(text, "optimizer.type=adamw", "optimizer.weight_decay=0.5")
    assert config.plan.optimizer.arguments == {"lr": 0.25, "weight_decay": 0.5}
    assert config.warnings == (
        "optimizer: the type changed from 'sgd' to 'adamw', which does not take momentum, nesterov: dropped",
    )
    child = 'extends = "base.toml"\n[optimizer]\ntype = "adamw"\n'
    config = load_config(child, files={"base.toml": text})
    assert config.plan.optimizer.arguments == {"lr": 0.25, "weight_decay": 0.01}


def test_an_argument_of_the_same_layer_is_never_dropped(load_config, problem_lines, valid) -> None:
    assert problem_lines(valid, "optimizer.type=sgd", "optimizer.weight_decay=0.1") == [
        "--set optimizer.weight_decay: unknown key"
    ]
    typo = valid.replace("[optimizer]", "[optimizer]\nmomentun = 0.9")
    child = 'extends = "base.toml"\n[optimizer]\ntype = "adamw"\n'
    assert problem_lines(child, files={"base.toml": typo}) == [
        "base.toml:18:1: optimizer.momentun: unknown key",
        "base.toml is extended by pipeline.toml:1:1",
    ]


def test_a_type_said_again_drops_nothing(load_config, problem_lines, valid) -> None:
    child = 'extends = "base.toml"\n[hooks.ema]\ntype = "ema"\n'
    lines = problem_lines(child, files={"base.toml": valid + "[hooks.ema]\ndecai = 0.5\n"})
    assert lines == [
        "base.toml:26:1: hooks.ema.decai: unknown key; did you mean 'decay'?",
        "base.toml is extended by pipeline.toml:1:1",
    ]


def test_whole_values_from_the_environment_fit_the_declared_type(load_config, valid, monkeypatch) -> None:
    monkeypatch.setenv("TEST_NUMBER", "16")
    monkeypatch.setenv("TEST_LIST", "[1, 2]")
    text = valid.replace("seed = 7", 'seed = "${oc.env:TEST_NUMBER}"')
    text = text.replace('type = "digits"', 'type = "table"\nurl = "${oc.env:TEST_NUMBER}"', 1)
    config = load_config(
        text,
        "model.hidden=${oc.env:TEST_LIST}",
        "train.global_batch_size=${oc.env:TEST_NUMBER}",
        "loader.workers=${oc.env:TEST_UNSET,3}",
        "optimizer.lr=${oc.env:TEST_UNSET,null}",
    )
    assert config.plan.seed == 16
    assert config.plan.datasets["train"].arguments["url"] == "16", "where text is wanted it stays text"
    assert config.plan.model.arguments["hidden"] == [1, 2]
    assert config.plan.train.global_batch_size == 16
    assert config.plan.loader.workers == 3
    assert config.plan.optimizer.arguments["lr"] == 1e-3, "null is not set"
    assert config.tree["train"]["global_batch_size"] == 16


def test_only_text_with_an_interpolation_goes_through_it(load_config, valid) -> None:
    tree = merged_without_schemas(read_text("[vars]\nday = 2024-02-03\nq = '???'\nr = '${vars.q}'\n"))
    assert tree["vars"] == {"day": datetime.date(2024, 2, 3), "q": "???", "r": "${vars.q}"}


def read_text(text: str):
    Path("some.toml").write_text(text)
    return read("some.toml")


def test_a_config_without_evaluation_says_nothing_about_it(load_config, valid) -> None:
    text = valid.replace("[dataset.eval]", "[vars.unused]").replace("[metrics.accuracy]", "")
    config = load_config(text)
    assert "evaluate_every" not in config.tree["train"]
    load_config(to_toml(config, 1))


def test_the_run_can_be_named_from_outside(load_config, valid) -> None:
    assert load_config(valid, name="mine").plan.name == "mine"
    assert tomllib.loads(to_toml(load_config(valid, name="mine"), 5))["name"] == "mine"


def test_starts_without_torch_and_without_omegaconf() -> None:
    code = (
        "import sys, pipeline.config.validate, pipeline.config.compare, pipeline.config.layers\n"
        "print(sorted({'torch', 'omegaconf', 'pydantic', 'tree_sitter'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
