"""``pipeline diff``: what is different only because it refers to another key."""

from __future__ import annotations

import json

import pytest

from pipeline.cli.loading import load_with_registry
from tiny_runs import call, train, trained, write_tiny


def causes(*sides):
    """Each key that is different, with the reference that it follows."""
    document = json.loads(call("diff", *sides, "--json").stdout)
    return [(row["key"], row["follows"]) for row in document["config"]]


def test_the_cause_comes_first_and_what_follows_from_it_is_said(tmp_path):
    config = write_tiny(tmp_path)
    text = config.read_text()
    assert "[vars]" not in text
    other = tmp_path / "other.toml"
    config.write_text(text + '[vars]\nfactor = 2\n[hooks.ema]\ndecay = "${optimizer.lr}"\n')
    other.write_text(config.read_text())
    runs = tmp_path / "runs"
    sides = [train(config, runs), train(config, runs, "optimizer.lr=0.2")]
    expected = [("optimizer.lr", None), ("hooks.ema.decay", "${optimizer.lr}")]
    assert causes(*sides) == expected
    assert "hooks.ema.decay (follows ${optimizer.lr})" in call("diff", *sides).stdout
    overridden = train(config, runs, "optimizer.lr=0.3", "hooks.ema.decay=0.5")
    assert causes(sides[0], overridden) == [("optimizer.lr", None), ("hooks.ema.decay", None)]
    child = tmp_path / "child.toml"
    child.write_text(f'extends = "{config.name}"\nset = ["optimizer.lr=0.4", "hooks.ema.decay=0.6"]\n')
    edited = train(child, runs)
    assert causes(sides[0], edited) == [("optimizer.lr", None), ("hooks.ema.decay", None)]


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ('set = ["hooks.ema.decay=${optimizer.lr}"]', []),
        ("set = [\"hooks.ema={decay='${optimizer.lr}'}\"]", []),
        ('set = ["hooks.ema.decay=0.5"]', ["hooks.ema.decay=${optimizer.lr}"]),
        ("[hooks.ema]\ndecay = 0.5", ["hooks.ema={decay='${optimizer.lr}'}"]),
    ],
)
def test_what_follows_may_be_set_in_a_file_and_on_the_command_line(tmp_path, text, overrides):
    write_tiny(tmp_path)
    config, runs = tmp_path / "child.toml", tmp_path / "runs"
    config.write_text(f'extends = "tiny.toml"\n{text}\n')
    sides = [train(config, runs, *overrides), train(config, runs, *overrides, "optimizer.lr=0.2")]
    expected = [("optimizer.lr", None), ("hooks.ema.decay", "${optimizer.lr}")]
    assert causes(*sides) == expected


@pytest.mark.parametrize("text", ["[hooks.ema]\ndecay = %s", 'set = ["hooks.ema.decay=%s"]'])
def test_what_a_file_has_otherwise_than_its_base_follows_from_nothing(tmp_path, text):
    """Whatever the files are called: the source folder tells no order."""
    write_tiny(tmp_path, '[hooks.ema]\ndecay = "${optimizer.lr}"\n')
    sides = []
    for name, decay in (("a.toml", 0.5), ("z.toml", 0.6)):
        (tmp_path / name).write_text(f'extends = "tiny.toml"\n{text % decay}\n')
        sides.append(train(tmp_path / name, tmp_path / "runs"))
    assert causes(*sides) == [("hooks.ema.decay", None)]


def test_a_default_in_the_place_of_what_a_file_took_out_follows_from_nothing(tmp_path):
    config, child = write_tiny(tmp_path, '[hooks.ema]\ndecay = "${optimizer.lr}"\n'), tmp_path / "child.toml"
    child.write_text(f'extends = "{config.name}"\nunset = ["hooks.ema.decay"]\n')
    sides = [train(one, tmp_path / "runs") for one in (config, child)]
    assert causes(*sides) == [("hooks.ema.decay", None)]


def test_what_was_in_a_table_that_the_command_line_took_out_follows_from_nothing(tmp_path):
    config = write_tiny(tmp_path, '[hooks.ema]\ndecay = "${optimizer.lr}"\n')
    anew = ["hooks.ema.every=2 steps", "optimizer.lr=0.2"]
    without = load_with_registry(config, sets=anew, unsets=["hooks.ema"]).config
    sides = [train(config, tmp_path / "runs"), trained(without, tmp_path / "runs")]
    assert causes(*sides) == [("optimizer.lr", None), ("hooks.ema.decay", None), ("hooks.ema.every", None)]


def test_an_array_is_no_reference_that_was_appended_to_it(tmp_path):
    config = write_tiny(tmp_path, "[vars]\nwide = 5\n[model]\nhidden = [4]\n")
    append = "model.hidden+=${vars.wide}"
    sides = [
        train(config, tmp_path / "runs", one, append) for one in ("model.hidden=[4]", "model.hidden=[6]")
    ]
    assert causes(*sides) == [("model.hidden", None)]


def test_an_array_that_was_appended_to_follows_from_nothing(tmp_path):
    config = write_tiny(tmp_path, '[vars]\nwide = [5]\nclasses = 3\n[model]\nhidden = ["${vars.wide.0}"]\n')
    sides = [train(config, tmp_path / "runs", f"model.hidden+={width}") for width in (6, 7)]
    assert causes(*sides) == [("model.hidden", None)]
