"""Components within components: what their tables hold, and what becomes of it when their type changes."""

from __future__ import annotations

import pytest

from pipeline.cli.loading import load_with_registry
from pipeline.errors import ConfigError

PARTS = """
from torch import nn
from pipeline import register

@register("model", "wide")
class Wide(nn.Module):
    def __init__(self, width: int = 1, shared: int = 0): ...

@register("model", "deep")
class Deep(nn.Module):
    def __init__(self, depth: int = 1, shared: int = 0): ...

@register("model", "tower")
class Tower(nn.Module):
    def __init__(
        self, blocks: list[nn.Module], by_name: dict[str, nn.Module] = {}, head: nn.Module | None = None
    ): ...
"""

CONFIG = """\
components = ["PARTS.py"]

[model]
type = "tower"
blocks = [{ type = "wide", width = 2, shared = 3 }, { type = "tower", blocks = [] }]
by_name.first = { type = "wide", width = 4 }

[dataset.train]
type = "digits"

[objective]
type = "cross_entropy"

[optimizer]
type = "adamw"

[train]
epochs = 1
global_batch_size = 64
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load the config above, with another file of components for each test."""
    name = f"nested_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(PARTS)
    (tmp_path / "pipeline.toml").write_text(CONFIG.replace("PARTS", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.api.register._registrations", {})
    return lambda *sets, unsets=(): load_with_registry("pipeline.toml", sets=sets, unsets=unsets).config


def test_a_nested_table_keeps_what_its_new_type_takes(load) -> None:
    """CFG-03: in an array and in a table of components too."""
    config = load("model.blocks.0.type=deep", "model.by_name.first.type=deep")
    assert config.tree["model"]["blocks"][0] == {"type": "deep", "depth": 1, "shared": 3}
    assert config.tree["model"]["by_name"]["first"] == {"type": "deep", "depth": 1, "shared": 0}
    dropped = "the type changed from 'wide' to 'deep', which does not take width: dropped"
    assert sorted(config.warnings) == [f"model.blocks.0: {dropped}", f"model.by_name.first: {dropped}"]


def test_an_argument_beside_the_new_nested_type_is_never_dropped(load) -> None:
    with pytest.raises(ConfigError) as caught:
        load("model.blocks.0.width=5", "model.blocks.0.type=deep")
    (line,) = str(caught.value).splitlines()
    assert line.startswith("--set model.blocks.0.width: unknown")


def test_faults_stand_where_they_were_written_at_any_depth(load) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            "model.blocks.1.blocks=[{type='tower', blocks=[{type='wide', widht=1}]}]",
            "model.head={type='dep'}",
        )
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines if line.startswith("--set")] == [
        "--set model.blocks.1.blocks.0.blocks.0.widht", "--set model.head.type",
    ]  # fmt: skip
    assert "did you mean 'width'?" in lines[0] and "did you mean 'deep'?" in lines[1]
