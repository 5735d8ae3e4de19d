"""Tables and arrays edited by name and by position, from files and from the command line."""

from __future__ import annotations

import json
import tomllib

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.cli.main import main
from pipeline.config.config import fingerprint
from pipeline.config.layers import read
from pipeline.config.validate import load
from pipeline.errors import ConfigError

BASE = """\
[model]
type = "mlp"
in_features = 64
hidden = [32, 16, 8]
out_features = 10

[dataset.train]
type = "digits"

[objective]
type = "cross_entropy"

[optimizer]
type = "adamw"

[[optimizer.groups]]
params = ["*.bias"]
weight_decay = 0.0

[[optimizer.groups]]
params = ["layers.0.*"]
lr = 0.1

[train]
epochs = 1
global_batch_size = 64

[hooks.progress]
[hooks.checkpoint]
keep_last = 3
[hooks.ema]
"""


@pytest.fixture
def resolved(tmp_path, monkeypatch):
    """What ``pipeline check --resolved`` shows of a child of the config above."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.toml").write_text(BASE)

    def tree(child: str = "", *options: str):
        (tmp_path / "child.toml").write_text(f'extends = "base.toml"\n{child}')
        result = CliRunner().invoke(main, ["check", "child.toml", "--resolved", *options])
        assert result.exit_code == 0, result.output
        return tomllib.loads(result.stdout)

    return tree


@pytest.mark.parametrize(
    ("child", "options"),
    [
        ('unset = ["hooks.progress"]\n[hooks.lr_monitor]\n[hooks.checkpoint]\nkeep_last = 9\n', []),
        (
            "",
            [
                *("--unset", "hooks.progress", "--set", "hooks.lr_monitor={}"),
                *("--set", "hooks.checkpoint.keep_last=9"),
            ],
        ),
        (
            'unset = ["hooks.progress"]\nset = ["hooks.checkpoint.keep_last=9", "hooks.lr_monitor={}"]\n',
            [],
        ),
    ],
    ids=["child", "command line", "edits in a child"],
)
def test_one_hook_is_added_one_removed_one_edited_and_the_order_is_kept(resolved, child, options) -> None:
    """REQ-08: as a child file and as overrides, to the same end."""
    hooks = resolved(child, *options)["hooks"]
    assert list(hooks) == ["checkpoint", "ema", "lr_monitor"]
    assert hooks["checkpoint"]["keep_last"] == 9


@pytest.mark.parametrize("by", ["child", "command line"])
def test_elements_are_appended_changed_and_taken_out_by_position(resolved, by) -> None:
    """REQ-08: positions are those of the array before it is edited; appending comes last."""
    unsets = ["model.hidden.0", "model.hidden.2", "optimizer.groups.0"]
    sets = [
        *("model.hidden+=4", "model.hidden+=[2, 1]", "optimizer.groups.0.lr=0.5"),
        *("optimizer.groups+={params=['*'], lr=0.25}", "model.freeze+=layers.0.bias"),
    ]
    if by == "child":
        tree = resolved(f"unset = {json.dumps(unsets)}\nset = {json.dumps(sets)}\n")
    else:
        options = [f"--unset={key}" for key in unsets] + [f"--set={text}" for text in sets]
        tree = resolved("", *options)
    assert tree["model"]["hidden"] == [16, 4, 2, 1] and tree["model"]["freeze"] == ["layers.0.bias"]
    assert tree["optimizer"]["groups"] == [
        {"params": ["layers.0.*"], "lr": 0.5},
        {"params": ["*"], "lr": 0.25},
    ]


def test_a_file_takes_elements_out_of_what_it_extends(resolved) -> None:
    child = 'unset = ["model.hidden.0", "model.hidden.1", "optimizer.groups"]\n'
    tree = resolved(child)
    assert tree["model"]["hidden"] == [8] and "groups" not in tree["optimizer"]


def test_what_a_file_sets_comes_after_its_tables_and_belongs_to_its_folder(resolved, tmp_path) -> None:
    """Each of three files edits an array of what it extends; local components are read where they lie."""
    folder = tmp_path / "sub"
    folder.mkdir()
    for name in ("first", "second"):
        (folder / f"{name}_{tmp_path.name}.py").write_text("")
    (folder / "middle.toml").write_text(
        f'extends = "../base.toml"\ncomponents = ["first_{tmp_path.name}.py"]\n'
        f'set = ["components+=second_{tmp_path.name}.py", "optimizer.groups.1.lr=0.5", "train.steps=3"]\n'
        "[model]\nhidden = [5]\n"
    )
    (tmp_path / "base.toml").write_text(BASE)
    child = 'set = ["model.hidden+=6", "model.hidden.0=7"]\n[model]\nhidden = [1, 2]\n'
    (tmp_path / "last.toml").write_text(f'extends = "sub/middle.toml"\n{child}')
    result = CliRunner().invoke(main, ["check", "last.toml", "--resolved"])
    assert result.exit_code == 0, result.output
    tree = tomllib.loads(result.stdout)
    assert tree["model"]["hidden"] == [7, 2, 6]
    assert tree["optimizer"]["groups"][1]["lr"] == 0.5
    assert tree["train"]["steps"] == 3 and "epochs" not in tree["train"]
    assert tree["components"] == [str(folder / f"{name}_{tmp_path.name}.py") for name in ("first", "second")]


def test_one_of_the_local_files_is_replaced_by_position(resolved, tmp_path) -> None:
    for name in ("old", "new"):
        (tmp_path / f"{name}_{tmp_path.name}.py").write_text("")
    child = f'components = ["old_{tmp_path.name}.py"]\n'
    tree = resolved(child, f"--set=components.0=new_{tmp_path.name}.py")
    assert tree["components"] == [str(tmp_path / f"new_{tmp_path.name}.py")]


def test_places_follow_elements_that_move_up(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.toml").write_text(BASE.replace("lr = 0.1", "lr = 'x'"))
    result = CliRunner().invoke(main, ["check", "base.toml", "--unset", "optimizer.groups.0"])
    assert result.stderr.startswith("base.toml:22:1: optimizer.groups.0.lr: ")


EDITS = st.lists(
    st.sampled_from([
        ("--set", "optimizer.type=sgd"), ("--set", "optimizer.type=adamw"), ("--set", "optimizer.lr=0.5"),
        ("--set", "optimizer.momentum=0.5"), ("--set", "optimizer={type='sgd', momentum=0.9}"),
        ("--set", "optimizer.groups=[{params=['*'], lr=1}]"), ("--set", "optimizer.groups.0.lr=2"),
        ("--unset", "optimizer.groups"), ("--unset", "optimizer.groups.1"), ("--set", "model.hidden=[3]"),
        ("--set", "model.hidden.0=5"), ("--unset", "model.hidden.2"), ("--unset", "model.hidden"),
        ("--set", "model.hidden+=7"), ("--set", "hooks.ema={decay=0.5}"), ("--set", "hooks.ema.decay=0.25"),
        ("--unset", "hooks.ema"), ("--unset", "hooks"), ("--set", "train.steps=3"),
        ("--set", "train.epochs=2"),
    ]),
    max_size=6,
    unique_by=lambda edit: edit[1].partition("=")[0] if edit[0] == "--set" else edit[1:],
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), EDITS)
def test_the_order_of_different_overrides_does_not_matter(
    tmp_path, schemas_of_installed, data, edits
) -> None:
    """CFG-03: keys that are each given once have one result, valid or not, in any order."""
    (tmp_path / "base.toml").write_text(BASE)
    outcomes = []
    for order in (edits, data.draw(st.permutations(edits))):
        sets = [text for option, text in order if option == "--set"]
        unsets = [text for option, text in order if option == "--unset"]
        try:
            config = load(read(tmp_path / "base.toml", sets=sets, unsets=unsets), schemas_of_installed)
        except ConfigError as error:
            outcomes.append(sorted(map(str, error.problems)))
        else:
            outcomes.append(
                (
                    fingerprint(config, 1),
                    list(config.tree["hooks"]) if "hooks" in config.tree else [],
                    config.warnings,
                )
            )
    assert outcomes[0] == outcomes[1]
