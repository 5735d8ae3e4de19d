"""``pipeline schema``, with a real TOML language server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from language_server import language_server, lint
from tiny_runs import call, write_tiny

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "pipeline.schema.json"
CONFIGS = [ROOT / "pipeline.toml", *sorted((ROOT / "examples").glob("*.toml"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the schema beside the files that a test writes."""
    place = tmp_path_factory.mktemp("editor")
    (place / "schema.json").write_text(call("schema").stdout)
    return place


def complaints(folder, text):
    file = folder / "config.toml"
    file.write_text(f"#:schema ./schema.json\n{text}")
    return lint(file)


def test_the_schema_in_the_repository_is_the_one_that_is_written():
    """A stale one: python -m pipeline schema > docs/pipeline.schema.json"""
    command = [sys.executable, "-m", "pipeline", "schema"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(written) == json.loads(SCHEMA.read_text())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_configs_of_the_repository_name_it_and_a_server_finds_nothing(path):
    first, _ = path.read_text().split("\n", 1)
    assert (path.parent / first.removeprefix("#:schema ")).resolve() == SCHEMA
    assert lint(path) == []


DIGITS = (ROOT / "pipeline.toml").read_text().partition("\n")[2]
EDITS = [
    ("hidden = [128, 64]", "hiden = [128, 64]", '"hiden" is not allowed'),
    ("hidden = [128, 64]", "hidden = [0]", "≥ 1"),
    ("hidden = [128, 64]", "", '"hidden" is required'),
    ('type = "mlp"', 'type = "mpl"', "mlp"),
    ("epochs = 20", 'epochs = "many"', "does not match"),
    ("epochs = 20", 'precision = "fp8"', "fp16"),
    ('every = "1 epoch"', 'every = "1 epoc"', "epoch"),
    ('mode = "max"', 'mode = "most"', "max"),
    ("[metrics.accuracy]", "[metrics.acuracy]", '"type" is required'),
    ("[metrics.accuracy]", "[metrics.accuracy]\nj = 2 #", '"j" is not allowed'),
    ("[metrics.accuracy]", "[metrics.torchmetrics]", '"metric" is required'),
    ("global_batch_size = 64", "", '"global_batch_size" is required'),
    ("lr = 0.01", "learning_rate = 0.01", '"learning_rate" is not allowed'),
    ("[objective]", "[objectve]", '"objectve" is not allowed'),
]


@pytest.mark.parametrize(
    ("before", "after", "words"), EDITS, ids=[after or before for before, after, _ in EDITS]
)
def test_a_mistake_is_shown_at_its_line(folder, before, after, words):
    assert before in DIGITS
    text = DIGITS.replace(before, after)
    found = complaints(folder, text)
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    "text",
    [
        'extends = "base.toml"\n[model]\nhidden = [3]\n',  # the rest is in another file
        'components = ["mine.py"]\n[model]\ntype = "mine"\nanything = 1\n',
        DIGITS.replace('type = "mlp"', 'type = "pipeline-ddp/mlp"'),
        DIGITS.replace("hidden = [128, 64]", 'hidden = ["${vars.width}", 64]'),
        DIGITS.replace("epochs = 20", 'epochs = "${vars.epochs}"'),
        DIGITS.replace("[metrics.accuracy]", '[metrics.top2]\ntype = "accuracy"\nk = 2 #'),
        DIGITS.replace('mode = "max"', 'mode = "max"\nranks = "all"'),
    ],
)
def test_what_is_right_is_left_alone(folder, text):
    assert complaints(folder, text) == []


@pytest.mark.parametrize(
    ("line", "text", "offered", "not_offered"),
    [
        (2, '[model]\ntype = ""\n', ["mlp", "convnet", "char_transformer"], ["adamw"]),
        (2, '[optimizer]\ntype = ""\n', ["adamw", "sgd"], ["mlp"]),
        (3, '[model]\ntype = "mlp"\n\n', ["in_features", "hidden", "dropout"], ["in_channels"]),
        (3, '[hooks.best]\ntype = "checkpoint"\n\n', ["keep_last", "monitor", "ranks"], ["decay"]),
        (2, '[train]\nprecision = ""\n', ["fp32", "bf16", "fp16"], ["mlp"]),
    ],
)
def test_a_server_completes_names_arguments_and_choices(folder, line, text, offered, not_offered):
    file = folder / "completed.toml"
    file.write_text(f"#:schema ./schema.json\n{text}")
    column = file.read_text().splitlines()[line].find('"') + 1
    with language_server(folder) as server:
        found = server.completions(file, line, column)
    assert set(offered) <= set(found), found
    assert not set(not_offered) & set(found), found


PACKAGE = """\
from typing import Literal
import warnings

from torch import nn

def deprecated(component):
    component.__deprecated__ = "use newest"
    return component

@deprecated
class Old(nn.Linear):
    def __init__(self, kernel: int | tuple[int, int] = 3, mode: Literal["a", "b"] = "a") -> None:
        '''A linear layer.

        Args:
            kernel: how wide.
        '''
        super().__init__(4, 3)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A distribution with a deprecated model, and one that does not import."""
    info = tmp_path / "acme_kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-kernels\nVersion: 1.0\n\n")
    (info / "entry_points.txt").write_text(
        "[pipeline.models]\nold = acme_kernels:Old\nlost = acme_lost:Lost\n"
    )
    (tmp_path / "acme_kernels.py").write_text(PACKAGE)
    (tmp_path / "acme_lost.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("acme_kernels", None)


def test_choices_and_unions_of_a_package_are_in_it_and_in_errors(package, tmp_path):
    """REQ-09: listed choices, an int or a pair, and a schema for editors; a broken component is left out."""
    result = call("schema")
    assert result.exit_code == 0
    written = json.loads(result.stdout)["$defs"]
    assert "model.lost" not in written
    old = written["model.old"]
    assert old["deprecated"] is True
    assert old["properties"]["kernel"]["description"] == "how wide."
    assert old["properties"]["kernel"]["default"] == 3
    (choices,) = [one["enum"] for one in old["properties"]["mode"]["anyOf"] if "enum" in one]
    assert choices == ["a", "b"]
    config = write_tiny(tmp_path / "run", "[model]\ntype = 'old'\nkernel = [1]\nmode = 'c'\n")
    result = call("check", config, "--set", "train.precision='fp8'")
    kernel, mode, precision = [line for line in result.stderr.splitlines() if "warning" not in line]
    assert "model.kernel: got [1]" in kernel and "an integer" in kernel
    assert 'model.mode: got "c"' in mode and '"a" or "b"' in mode
    assert '"fp32", "bf16" or "fp16"' in precision
