"""``pipeline --help``, and what the commands that train nothing import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli import loading
from tiny_runs import call, modules_of, write_tiny

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "omegaconf", "numpy", "tree_sitter"}


def test_help_names_every_command():
    result = call("--help")
    assert result.exit_code == 0
    for name in ("run", "check", "evaluate", "components", "diff", "runs"):
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize("command", ["run", "check", "components", "diff", "runs"])
def test_every_command_explains_itself_and_its_exit_status(command):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert "Exit status:" in result.stdout


def test_an_unknown_command_is_a_usage_error():
    assert call("rnu").exit_code == 2


def test_help_imports_nothing_heavy():
    """PRF-02: by what is in sys.modules afterwards, since a time would depend on the machine."""
    assert not modules_of("--help") & (HEAVY | {"pydantic", "rich"})


def test_the_list_of_components_imports_no_torch():
    """PRF-02."""
    assert not modules_of("components") & HEAVY


def test_runs_imports_no_torch(tmp_path):
    """PRF-02."""
    assert not modules_of("runs", "--runs-dir", tmp_path) & HEAVY


MOMENTUM = "[optimizer]\nmomentum = 0.0\n"
ADAMW = "[optimizer]\ntype = 'adamw'\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[optimizer]\nlr = 0.2\n", False),
        (MOMENTUM, True),
        ("[optimizer]\nnesterov = true\nmomentum = 0.9\n", False),
        ("[model]\ndropout = 0\n[dataset.train]\nseed = 0\n[hooks.checkpoint]\nkeep_last = 2\n", True),
        ("[train]\nprecision = 'fp32'\n[loader]\nworkers = 0\n[model]\nfreeze = []\n[sampler]\n", True),
        ("[[optimizer.groups]]\nparams = ['*.bias']\nweight_decay = 0\n", False),
        (ADAMW, False),
        ("[vars]\nrate = 0.1\n[optimizer]\nlr = '${vars.rate}'\nmomentum = 0\n", True),
        ("[scheduler]\ntype = 'warmup_cosine'\n[hooks.progress]\n", False),
        ("[scheduler]\ntype = 'reduce_lr_on_plateau'\nmonitor = 'eval/loss'\n", False),
    ],
    ids=[
        "values",
        "an argument equal to its default",
        "an argument that is not",
        "defaults of several components",
        "the engine's keys",
        "parameter groups",
        "a changed type",
        "an interpolation",
        "more components",
        "a component of torch",
    ],
)
def test_diff_of_two_files_imports_no_torch(tmp_path, text, same):
    """PRF-02: one extends the other, and has these keys more; or has them written into it."""
    one, two = tmp_path / "base.toml", write_tiny(tmp_path, text)
    result = call("diff", one, two, "--json")
    assert json.loads(result.stdout)["same"] == same
    assert not modules_of("diff", one, two) & (HEAVY - {"tree_sitter"} | {"pydantic"})


@pytest.mark.parametrize("extra", [MOMENTUM, ADAMW + "eps = 1e-8\n"])
def test_diff_tells_the_same_with_and_without_importing(tmp_path, monkeypatch, extra):
    one, two = write_tiny(tmp_path, ADAMW, "one.toml"), write_tiny(tmp_path, extra, "two.toml")
    told = call("diff", one, two, "--json").stdout
    monkeypatch.setattr(loading, "load_without_import", lambda path: None)
    assert call("diff", one, two, "--json").stdout == told


@pytest.mark.parametrize(
    "path", [ROOT / "pipeline.toml", *sorted((ROOT / "examples").glob("*.toml"))], ids=str
)
def test_the_examples_are_told_without_importing_what_they_name(path):
    told = loading.load_without_import(path)
    loaded = loading.load_with_registry(path).config
    assert told is not None
    assert repr(told.tree) == repr(loaded.tree)
    assert repr(told) == repr(loaded)


@pytest.mark.parametrize(
    "extra",
    [
        "[optimizer]\nmomentum = 'much'\n",
        "[optimizer]\nmomentun = 0.0\n",
        "[model]\ntype = 'acme-vision/resnet'\n",
        "[optimizer]\nlr = '${oc.env:TEST_RATE,0.1}'\n",
        "[hooks.checkpoint]\nmode = '${oc.env:TEST_MODE,max}'\n",  # a choice, which is written as it is
        "[hooks.checkpoint]\nmonitor = 'eval/nothing'\n",
        "[optimizer]\ntype = 'lbfgs'\n",
    ],
)
def test_what_is_not_plain_to_see_is_left_to_the_registry(tmp_path, extra):
    assert loading.load_without_import(write_tiny(tmp_path, extra)) is None


def test_what_a_local_file_registers_is_left_to_the_registry(tmp_path):
    (tmp_path / "part.py").write_text("")
    assert loading.load_without_import(write_tiny(tmp_path, 'components = ["part.py"]\n')) is None
