"""The reports of faults in configs, each at its smallest input through the real command."""

from __future__ import annotations

import itertools
import json
import tomllib
import tracemalloc

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from small_config import CONFIG


@pytest.fixture
def lines_of_ranks(command, tmp_path):
    """What two ranks that run a config print, all together; that it is refused before anything is made."""

    def refused(text: str, *options: str, env: dict[str, str] | None = None) -> list[str]:
        (tmp_path / "pipeline.toml").write_text(text)
        arguments = ["run", "pipeline.toml", "--runs-dir", "runs", *options]
        job = command(2, arguments, cwd=tmp_path, env=env or {})
        assert job.wait()[0] == 2, job.report()
        assert not (tmp_path / "runs").exists()
        return [line for rank in range(2) for line in job.output(rank).splitlines()]

    return refused


@pytest.fixture
def check(tmp_path, monkeypatch):
    """``pipeline check`` of a text with options."""
    monkeypatch.chdir(tmp_path)

    def checked(text: str, *options: str):
        (tmp_path / "pipeline.toml").write_text(text)
        return CliRunner().invoke(main, ["check", "pipeline.toml", *options])

    return checked


def test_a_bad_reference_names_key_text_target_and_nearest_once(lines_of_ranks) -> None:
    """CFG-01: and the variable that is not set; nothing else is printed, on two ranks."""
    vars_ = '[vars.a]\ndepth = 3\n[vars.b]\nc = "${..a.depht}"\ntoken = "${oc.env:NOT_SET_ANYWHERE}"\n'
    assert lines_of_ranks(vars_ + CONFIG) == [
        "pipeline.toml:4:1: vars.b.c: ${..a.depht} refers to nothing (vars.a.depht); expected a key of this "
        "config; did you mean 'vars.a.depth'?",
        "pipeline.toml:5:1: vars.b.token: the environment variable 'NOT_SET_ANYWHERE' is not set; expected "
        "the variable, or a default as in ${oc.env:NOT_SET_ANYWHERE,default}",
    ]


def test_unknown_keys_are_refused_in_one_go_with_where_they_belong(lines_of_ranks) -> None:
    """CFG-02: misspelt in a section, with a hyphen in a component, misplaced at the top, and by --set."""
    text = "lr = 0.1\n" + CONFIG.replace("epochs = 2", "epoch = 2").replace("lr = 0.01", "weight-decay = 0.1")
    assert lines_of_ranks(text, "--set", "train.epocs=3") == [
        "pipeline.toml:1:1: lr: unknown key, which belongs under [optimizer]",
        "pipeline.toml:19:1: optimizer.weight-decay: unknown argument; did you mean 'weight_decay'?",
        "pipeline.toml:23:2: train: does not say how long to train; expected exactly one of train.epochs and "
        "train.steps",
        "pipeline.toml:24:1: train.epoch: unknown key; did you mean 'epochs'?",
        "--set train.epocs: unknown key; did you mean 'epochs'?",
    ]


SGD = CONFIG.replace('"adamw"\nlr = 0.01', '"sgd"\nlr = 0.1\nmomentum = 0.9')


@pytest.mark.parametrize("order", [*itertools.permutations(["optimizer.type=adamw", "optimizer.lr=0.01"])])
def test_a_switched_component_keeps_what_it_takes_and_says_what_it_dropped(check, order) -> None:
    """CFG-03: with the two overrides in either order, and with the first alone."""
    options = [word for override in order for word in ("--set", override)]
    for given, lr in ((options, 0.01), (["--set", "optimizer.type=adamw"], 0.1)):
        optimizer = tomllib.loads(check(SGD, *given, "--resolved").stdout)["optimizer"]
        assert (optimizer["type"], optimizer["lr"]) == ("adamw", lr) and "momentum" not in optimizer
        (warning,) = [
            line for line in check(SGD, *given).stderr.splitlines() if line.startswith("warning: optimizer")
        ]
        assert warning.endswith(
            "the type changed from 'sgd' to 'adamw', which does not take momentum: dropped"
        )


PARTS = """
import datetime, time
from pipeline import Hook, register

@register("hook", "typed")
class Typed(Hook):
    def __init__(self, tags: list[str], day: datetime.date, note: str = "", dropout: float = 0.5) -> None: ...

@register("dataset", "slow")
def slow(length: int = 3):
    time.sleep(60)
"""


def test_values_keep_their_types_through_a_round_trip(check, tmp_path) -> None:
    """CFG-04: texts that look like numbers, an exponent, a date, an integer for a float, and overrides."""
    (tmp_path / "typed_parts.py").write_text(PARTS)
    hook = '[hooks.typed]\ntags = ["001", "1e3", "true", "null"]\nday = 2024-01-02\ndropout = 1\n'
    text = f'components = ["typed_parts.py"]\n{CONFIG.replace("0.01", "1e-5")}{hook}'
    first = check(text, "--resolved", "--set", "hooks.typed.note=on").stdout
    assert check(first, "--resolved").stdout == first
    tree = tomllib.loads(first)
    assert tree["optimizer"]["lr"] == 1e-5 and tree["hooks"]["typed"]["dropout"] == 1.0
    assert tree["hooks"]["typed"]["tags"] == ["001", "1e3", "true", "null"]
    assert str(tree["hooks"]["typed"]["day"]) == "2024-01-02" and tree["hooks"]["typed"]["note"] == "on"
    refused = check(text.replace("epochs = 2", 'epochs = "2"'), "--set", 'hooks.typed.tags=["007", 7]')
    assert refused.stderr.splitlines() == [
        'pipeline.toml:24:1: train.epochs: got "2" (a string); expected an integer',
        "--set hooks.typed.tags.1: got 7; expected a string (list[str])",
    ]


def test_four_faults_and_an_override_at_once_before_any_data(check, tmp_path) -> None:
    """CFG-05: positions in a list, the value in force with where it is from, and no dataset is built."""
    (tmp_path / "slow_parts.py").write_text(PARTS)
    groups = "[[optimizer.groups]]\nparams = ['*.bias']\n[[optimizer.groups]]\nparams = ['*']\nlr = 'x'"
    text = 'components = ["slow_parts.py"]\n' + CONFIG.replace("lr = 0.01", groups)
    text = text.replace('"mlp"', '"mpl"').replace("[hooks.ema]", "[hooks.early_stopping]")
    text = text.replace('type = "digits"', 'type = "slow"', 1)
    result = check(text, "--set", "train.global_batch_size=-3", "--json")
    problems = json.loads(result.stdout)["problems"]
    assert [(problem["place"], problem["key"]) for problem in problems] == [
        ("pipeline.toml:3:1", "model.type"),
        ("pipeline.toml:23:1", "optimizer.groups.1.lr"),
        ("pipeline.toml:31:8", "hooks.early_stopping.monitor"),
        ("--set", "train.global_batch_size"),
    ]
    assert result.exit_code == 2 and problems[-1]["message"] == "got -3"


def test_a_monitor_of_no_metric_is_refused_before_training(lines_of_ranks) -> None:
    """CFG-06: with the nearest name that will exist."""
    hook = "[hooks.checkpoint]\nmonitor = 'eval/acc'\nmode = 'max'\n"
    assert lines_of_ranks(CONFIG.replace("[hooks.ema]\n", hook)) == [
        'pipeline.toml:27:1: hooks.checkpoint.monitor: "eval/acc" is not measured; did you mean '
        "'eval/accuracy'?",
    ]


def test_a_file_of_10_mb_is_refused_before_it_is_read_whole(check, tmp_path) -> None:
    """At once and by its limit, with the name of the file that is too large, extended or not."""
    large = "[vars]\n" + "".join(f"k{number:07} = 1000000\n" for number in range(600_000))
    (tmp_path / "large.toml").write_text(large)
    said = "is larger than 1 MiB; expected a config; data belongs into files of its own"
    assert len(large) > 10_000_000 and said in check(large).stderr.splitlines()[0]
    tracemalloc.start()
    try:
        assert check("extends = 'large.toml'\n").stderr.splitlines() == [
            f"pipeline.toml:1:1: extends: large.toml: {said}"
        ]
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
