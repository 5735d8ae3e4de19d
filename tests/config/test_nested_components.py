"""Components within components: what their tables hold, and what becomes of it when their type changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli.loading import load_with_registry
from pipeline.errors import ConfigError
from tiny_runs import call

PARTS = """
from dataclasses import dataclass, field
from pathlib import Path
from pydantic import BaseModel, ConfigDict, field_validator
from torch import nn
from torch.utils.data import Dataset
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

class Branch(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    name: str
    inner: nn.Module
    others: list[nn.Module] = []

    @field_validator("name")
    @classmethod
    def short(cls, name):
        if name == "raise":
            raise KeyError("not what pydantic expects")
        return name

@register("model", "branched")
class Branched(nn.Module):
    def __init__(self, branches: list[Branch], trunk: Branch | None = None) -> None:
        super().__init__()
        assert all(type(branch) is Branch for branch in branches)
        self.branches = nn.ModuleList(branch.inner for branch in branches)
        self.others = nn.ModuleList(other for branch in branches for other in branch.others)

    def forward(self, inputs):
        return sum(branch(inputs) for branch in self.branches)

@dataclass
class Cell:
    name: str
    inner: nn.Module
    others: list[nn.Module] = field(default_factory=list)
    file: Path | None = None

    def __post_init__(self):
        if not list(self.inner.parameters()):
            raise ValueError(f"{self.name} has nothing to learn")

@register("model", "celled")
class Celled(Branched):
    def __init__(self, branches: list[Cell], trunk: Cell | None = None) -> None:
        nn.Module.__init__(self)
        assert all(type(branch) is Cell and branch.file.is_absolute() for branch in branches)
        self.branches = nn.ModuleList(branch.inner for branch in branches)
        self.others = nn.ModuleList(other for branch in branches for other in branch.others)

@register("dataset", "wrapped")
class Wrapped(Dataset):
    class config_model(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        source: Dataset
        length: int

    def __init__(self, source, length):
        self.source, self.length = source, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.source[index]
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


MLP = "{type='mlp', in_features=64, hidden=[4], out_features=10, dropout=0.5}"
BRANCHED = f"model={{type='branched', branches=[{{name='a', inner={MLP}, others=[{MLP}]}}]}}"
CELLED = f"model={{type='celled', branches=[{{name='a', inner={MLP}, others=[{MLP}], file='f'}}]}}"


@pytest.mark.parametrize("model", [BRANCHED, CELLED], ids=["pydantic model", "dataclass"])
def test_components_in_a_model_or_dataclass_are_tables_with_a_type(load, tmp_path, model) -> None:
    """In a field, in a list in a field, and in a component's own ``config_model``; built for the run."""
    wrapped = "dataset.train={type='wrapped', length=70, source={type='digits'}}"
    sets = [f"--set={text}" for text in (model, wrapped)]
    for options in (["--unset", "model"], ["--unset", "dataset.train"]):
        sets += options
    result = call("check", "pipeline.toml", *sets, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["parameters"] == 2 * (64 * 4 + 4 + 4 * 10 + 10) and document["samples"]["train"] == 70
    keys = [one["key"] for one in document["components"]]
    assert {"model.branches.0.inner", "model.branches.0.others.0", "dataset.train.source"} < set(keys)
    assert [limit.partition(" ")[0] for limit in document["limits"][:2]] == [
        "model.branches.0.inner.dropout", "model.branches.0.others.0.dropout",
    ]  # fmt: skip
    resolved = call("check", "pipeline.toml", *sets, "--resolved").stdout
    (tmp_path / "again.toml").write_text(resolved)
    assert call("check", "again.toml", "--resolved").stdout == resolved


def test_a_dataclass_is_made_of_the_components_that_are_built(load) -> None:
    """Its own check, in ``__post_init__``, sees them; what it raises is the component's failure."""
    model = CELLED.replace(f"inner={MLP}", "inner={type='celled', branches=[]}")
    result = call("check", "pipeline.toml", "--unset", "model", "--set", model)
    assert result.exit_code == 2 and "a has nothing to learn" in result.stderr, result.output


@pytest.mark.parametrize("holder", ["branched", "celled"])
def test_faults_in_a_model_or_dataclass_stand_where_they_were_written(load, tmp_path, holder) -> None:
    """CFG-05: a wrong argument, a wrong type, a wrong key and no table, in lists and at two depths."""
    path = tmp_path / "pipeline.toml"
    text = path.read_text()
    start, end = text.index("[model]"), text.index("[dataset.train]")
    branched = """\
[model]
type = "branched"

[[model.branches]]
name = "a"
inner = { type = "wide", widht = 1 }

[[model.branches]]
name = "b"
inner = { type = "branched", branches = [{ name = "c", inner = { type = "wid" } }] }
innre = 1
others = [{ type = "wide" }, 3]

"""
    path.write_text(text[:start] + branched.replace("branched", holder) + text[end:])
    lines = call("check", "pipeline.toml").stderr.splitlines()
    expected = {
        (8, "model.branches.0.inner.widht"): "did you mean 'width'?",
        (12, "model.branches.1.inner.branches.0.inner.type"): "did you mean 'wide'?",
        (13, "model.branches.1.innre"): "did you mean 'inner'?",
        (14, "model.branches.1.others.1"): "a table with the type of a model",
    }
    for (line, key), words in expected.items():
        (found,) = (one for one in lines if f": {key}: " in one)
        assert found.startswith(f"pipeline.toml:{line}:") and words in found, lines


def test_a_validator_that_fails_is_a_fault_of_its_component(load) -> None:
    model = BRANCHED.replace("'a'", "'raise'")
    result = call("check", "pipeline.toml", "--unset", "model", "--set", model)
    assert result.exit_code == 2 and "--set model: its own validation fails: KeyError" in result.stderr


def test_a_value_in_the_place_of_a_dataclass_with_a_secret_is_not_repeated(load, tmp_path) -> None:
    """TRK-04: as it may be the secret."""
    (tmp_path / f"login_{tmp_path.name}.py").write_text(
        "from dataclasses import dataclass\nfrom pydantic import SecretStr\nfrom torch import nn\n"
        "from pipeline import register\n\n@dataclass\nclass Login:\n    user: str\n    key: SecretStr\n\n"
        "@register('model', 'shut')\nclass Shut(nn.Module):\n    def __init__(self, login: Login): ...\n"
    )
    sets = ["--set", f"components+=login_{tmp_path.name}.py", "--unset", "model"]
    result = call("check", "pipeline.toml", *sets, "--set", "model={type='shut', login='planted'}")
    assert "--set model.login: the value, which may hold a secret, does not fit" in result.stderr
    assert "planted" not in result.output


@pytest.mark.parametrize("holder", ["branched", "celled"])
def test_a_table_in_a_model_or_dataclass_keeps_what_its_new_type_takes(load, holder) -> None:
    """CFG-03: as one that is an argument itself."""
    head = "{name='a', inner={type='wide', width=2, shared=3}}"
    Path("child.toml").write_text(
        "extends = 'pipeline.toml'\nunset = ['model']\n[model]\ntype = '"
        + holder
        + "'\nbranches = ["
        + head
        + "]\n"
    )
    config = load_with_registry("child.toml", sets=["model.branches.0.inner.type=deep"]).config
    assert config.tree["model"]["branches"][0]["inner"] == {"type": "deep", "depth": 1, "shared": 3}
    assert "which does not take width: dropped" in config.warnings[0]


SEEN = """
import copy
from typing import Any
from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from torch import nn
from pipeline import register

class Part(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inner: nn.Module
    look: str

    @field_validator("inner")
    @classmethod
    def narrow(cls, inner):
        if inner["type"] == "wide" and inner.get("width", 1) > 8:
            raise ValueError("is wider than 8")
        return inner

    @model_validator(mode="after")
    def checked(self):
        if self.look == "at the component":
            self.inner.parameters()
        for copied in (copy.copy(self.inner), copy.deepcopy(self.inner)):
            assert (copied, copied.kind) == (self.inner, self.inner.kind)
        return self

@register("model", "seen")
class Seen(nn.Module):
    def __init__(self, part: Part):
        super().__init__()
        assert isinstance(part.inner, nn.Module)
"""


def test_a_pydantic_validator_sees_the_table_of_a_component_that_is_not_built_yet(load, tmp_path) -> None:
    """By mode "after" too: a config is validated before anything is built; what it cannot see is said."""
    name = f"seen_{tmp_path.name}.py"
    (tmp_path / name).write_text(SEEN)

    def stderr(width: int, look: str) -> str:
        part = f"part={{inner={{type='wide', width={width}}}, look='{look}'}}"
        sets = ["--set", f"components+={name}", "--unset", "model"]
        return call("check", "pipeline.toml", *sets, "--set", f"model={{type='seen', {part}}}").stderr

    assert "is wider than 8" in stderr(9, "at the table")
    accepted = stderr(8, "at the table")
    assert "is wider than 8" not in accepted and "its own validation fails" not in accepted
    said = stderr(8, "at the component")
    assert "--set model: its own validation fails: AttributeError: a config is validated before" in said
    assert "the table of a model, which has no attribute 'parameters'" in said


LOOPS = """
from pydantic import BaseModel, ConfigDict
from torch import nn
from pipeline import register

class Tree(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inner: nn.Module
    kids: list["Tree"] = []

class Wood(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    trees: dict[str, Tree] = {}

@register("model", "argument")
class Argument(nn.Module):
    def __init__(self, wood: Wood): ...

@register("model", "declared")
class Declared(nn.Module):
    config_model = Wood
"""


@pytest.mark.parametrize("name", ["argument", "declared"])
def test_a_model_of_components_that_contains_itself_is_refused_with_its_reason(load, tmp_path, name) -> None:
    """REG-06: by the type of the component, without a traceback."""
    (tmp_path / f"loops_{tmp_path.name}.py").write_text(LOOPS)
    local = f"components=['loops_{tmp_path.name}.py']"
    sets = ["--set", local, "--unset", "model", "--set", f"model={{type='{name}'}}"]
    result = call("check", "pipeline.toml", *sets)
    assert result.exit_code == 2 and "Traceback" not in result.stderr
    assert f"--set model.type: the model '{name}' cannot be used from a config: " in result.stderr
    assert "a table that contains itself" in result.stderr
