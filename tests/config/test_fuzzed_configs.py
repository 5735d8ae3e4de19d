"""Whatever the text and the overrides are: a config, or a ConfigError, and never anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config.config import fingerprint, to_toml
from pipeline.config.layers import read
from pipeline.config.merge import merged_without_schemas
from pipeline.config.validate import load
from pipeline.errors import ConfigError

VALID = """\
seed = 7
[model]
type = "mlp"
in_features = 64
hidden = [8]
out_features = 10
[dataset.train]
type = "digits"
[dataset.eval]
type = "digits"
split = "test"
[objective]
type = "cross_entropy"
[optimizer]
type = "adamw"
[metrics.accuracy]
[train]
epochs = 2
global_batch_size = 64
"""
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

VALUES = st.sampled_from([
    "1", "-1", "0.5", "inf", "nan", "true", '""', '"text"', "'${vars.x}'", '"${oc.env:TEST_FUZZ,3}"', "[]",
    "[1, [2]]", "{}", "{ type = 'mlp' }", "[{ params = ['*'] }]", "1979-05-27",
    "0xffffffffffffffffff", '"${"', '"1 epoch"', "{a.b=1}",
    '"${model}"', '"${.}"', '"\\u0000"', "'a/b'",
])  # fmt: skip
KEYS = st.sampled_from([
    *("name", "seed", "extends", "components", "vars", "vars.x", "nonsense", '"x.y"', "''"),
    *("model", "model.type", "model.hidden", "model.weights", "model.freeze", "objective", "sampler"),
    *("dataset", "dataset.train", "dataset.eval.type", "dataset.'a b'"),
    *("metrics", "metrics.m", "metrics.accuracy.k", "train.evaluate_every"),
    *("optimizer", "optimizer.type", "optimizer.lr", "optimizer.groups", "optimizer.groups.0.lr"),
    *("scheduler", "scheduler.type", "scheduler.interval", "loader.workers", "distributed.timeout"),
    *("train", "train.epochs", "train.steps", "train.log_every", "train.stop_signals"),
    *("hooks", "hooks.ema.ranks", "hooks.checkpoint.monitor", "hooks.checkpoint.mode", "optimizer.groups+"),
    *("model.hidden+", "model.hidden.0"),
])  # fmt: skip
ODD = [
    b"\xef\xbb\xbf", b"\0", b"\r\n", b"\r", "\u2028\u202e".encode(), "\U0001f600".encode(), b"\xff",
    b"9" * 5000, b'"""',
    b"x = " + b"[" * 90 + b"]" * 90 + b"\n", b"x" + b".x" * 90 + b" = 1\n", b'x = "' + b"${" * 90 + b'"\n',
]  # fmt: skip
ASSIGNMENTS = st.tuples(KEYS, VALUES).map(" = ".join)


def survives(schemas, sets=(), unsets=()) -> str | None:
    """Load pipeline.toml here; if it is valid it can be written, and read again to the same.

    Returns:
        The fingerprint of a valid one.
    """
    try:
        layers = read("pipeline.toml", sets=sets, unsets=unsets)
        merged_without_schemas(layers)
        config = load(layers, schemas)
    except ConfigError as error:
        assert error.problems
        assert all(str(problem) for problem in error.problems)
        return None
    Path("again.toml").write_text(to_toml(config, 1))
    again = load(read("again.toml"), schemas)
    assert fingerprint(again, 1) == fingerprint(config, 1)
    return fingerprint(config, 1)


@in_one_folder
@given(st.lists(ASSIGNMENTS, max_size=4), st.lists(ASSIGNMENTS, max_size=4), st.lists(KEYS, max_size=2))
def test_overrides_and_lines(tmp_path, schemas_of_installed, lines, sets, unsets) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        edits = [line.replace(" = ", "=", 1) for line in sets]
        Path("pipeline.toml").write_text("\n".join(lines) + "\n" + VALID)
        survives(schemas_of_installed, edits, unsets)
        Path("pipeline.toml").write_text(VALID)
        by_options = survives(schemas_of_installed, edits, unsets)
        Path("base.toml").write_text(VALID)
        child = f'extends = "base.toml"\nset = {json.dumps(edits)}\nunset = {json.dumps(unsets)}\n'
        Path("pipeline.toml").write_text(child)
        assert survives(schemas_of_installed) == by_options


@in_one_folder
@given(st.data())
def test_damaged_text(tmp_path, schemas_of_installed, data) -> None:
    text = (VALID + "[vars]\nx = '${seed}'\n[[optimizer.groups]]\nparams = ['*']\n").encode()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 20)))
    piece = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"${", b"[[", b"]", b"=", b'"', b"\n[", b".", *ODD])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        Path("pipeline.toml").write_bytes(text[:start] + piece + text[stop:])
        survives(schemas_of_installed)
