"""``pipeline components``."""

from __future__ import annotations

import json
import tomllib

import pytest
import tomli_w

import pipeline
from pipeline.api.kinds import Kind
from pipeline.registry.registry import Registry
from tiny_runs import TINY, call


@pytest.fixture
def broken_package(tmp_path, monkeypatch):
    """A distribution with one component whose module has a syntax error, and one that lacks a package."""
    info = tmp_path / "acme_vision-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-vision\nVersion: 2.1\n\nText\n")
    (info / "entry_points.txt").write_text(
        "[pipeline.models]\nresnet = acme_typo:ResNet\nvit = acme_needs:ViT\nmlp = acme_fine:MLP\n"
    )
    (tmp_path / "acme_typo.py").write_text("class ResNet(:\n")
    (tmp_path / "acme_needs.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "acme_fine.py").write_text("def MLP():\n    return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def listed(*arguments):
    result = call("components", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_list_has_every_kind_with_distribution_and_version():
    rows = listed()
    assert {row["kind"] for row in rows} == {str(kind) for kind in Kind}
    (mlp,) = (row for row in rows if (row["kind"], row["name"]) == ("model", "mlp"))
    assert (mlp["distribution"], mlp["target"]) == ("pipeline-ddp", "pipeline.components.models.mlp:MLP")
    assert mlp["version"] and mlp["problem"] is None


def test_a_kind_alone_lists_that_kind():
    assert {row["kind"] for row in listed("hook")} == {"hook"}


def test_the_table_has_a_line_for_each():
    lines = call("components", "sampler").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["sampler", name] for name in ("sequential", "shuffle", "torch", "weighted")
    ]


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(("modle",), "'model'"), (("model", "mpl"), "'mlp'"), (("hooks",), "'hook'")],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(arguments, nearest):
    result = call("components", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"did you mean {nearest}?" in result.stderr


def test_one_component_in_full():
    text = call("components", "hook", "checkpoint").stdout
    assert "pipeline.components.hooks.checkpoint:Checkpoint (pipeline-ddp" in text
    assert "how many of the newest are kept" in text
    (described,) = [listed("hook", "checkpoint")]
    keep_last = next(one for one in described["parameters"] if one["name"] == "keep_last")
    assert (keep_last["required"], keep_last["default"]) == (False, 2)


def test_the_table_to_paste_is_toml():
    text = call("components", "dataset", "random").stdout
    pasted = tomllib.loads(text[text.index("[dataset.train]") :])["dataset"]["train"]
    assert pasted["type"] == "random"
    assert set(pasted) == {"type", "length", "input_shape"}


def test_a_broken_package_is_listed_with_its_reason(broken_package):
    problems = {
        row["name"]: row["problem"] for row in listed("model") if row["distribution"] == "acme-vision"
    }
    assert "SyntaxError" in problems["resnet"]
    assert problems["vit"] is None  # only importing it would tell
    loaded = {row["qualified"]: row["problem"] for row in listed("model", "--load")}
    assert "ModuleNotFoundError" in loaded["acme-vision/vit"]


def test_a_broken_component_is_shown_with_its_traceback(broken_package):
    result = call("components", "model", "vit")
    assert result.exit_code == 0
    assert "cannot be used" in result.stdout
    assert "No module named 'a_package_that_is_not_there'" in result.stdout


def test_a_name_that_two_packages_have_must_be_qualified(broken_package):
    assert "the name is taken twice: write acme-vision/mlp" in call("components", "model").stdout
    assert call("components", "model", "mlp").exit_code == 2
    assert call("components", "model", "acme-vision/mlp").exit_code == 0


def built_in():
    """Those that a config can name."""
    registry = Registry.discover()
    listings = [one for one in registry.listing() if one.distribution == "pipeline-ddp"]
    return [one for one in listings if not registry.describe(one.kind, one.qualified).refused]


@pytest.mark.parametrize("one", built_in(), ids=lambda one: f"{one.kind}-{one.name}")
def test_the_table_of_every_built_in_validates_where_it_is_pasted(one, tmp_path):
    text = call("components", one.kind, one.name).stdout
    table = text[text.rindex("\n[") + 1 :]
    section = table[1:].partition("]")[0].split(".")
    rest = tomllib.loads(TINY)
    if one.kind is Kind.DATASET:
        del rest["dataset"]["train"]
    else:
        rest.pop(section[0], None)
    if one.kind is Kind.METRIC:  # else the monitored one is gone
        del rest["hooks"]["checkpoint"]["monitor"]
    config = tmp_path / "pasted.toml"
    config.write_text(f"{tomli_w.dumps(rest)}\n{table}")
    assert pipeline.load_config(config).plan is not None
