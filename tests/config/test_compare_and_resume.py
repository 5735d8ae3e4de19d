"""The difference of two configs, and what it means to a run that is resumed."""

from __future__ import annotations

import pytest

from pipeline.config.compare import Change, changes, environment_keys
from pipeline.config.resume import effect_of, effects

BASE = {
    "name": "a",
    "model": {"type": "mlp", "hidden": [1, 2]},
    "metrics": {"accuracy": {"type": "accuracy", "k": 1}},
    "train": {"epochs": 2, "compile": False},
    "hooks": {"progress": {"type": "progress"}, "ema": {"type": "ema", "decay": 0.9}},
}


def changed(**sections) -> list[Change]:
    return changes(BASE, {**BASE, **sections})


def test_equal_trees_have_no_difference() -> None:
    reordered = {key: BASE[key] for key in reversed(BASE)}
    assert changes(BASE, reordered) == []
    assert changes({"a": float("nan")}, {"a": float("nan")}) == []


def test_values_are_compared_key_by_key_and_arrays_whole() -> None:
    assert changed(model={"type": "mlp", "hidden": [1, 3]}) == [Change("model.hidden", [1, 2], [1, 3])]
    assert changed(train={"steps": 5, "compile": False}) == [
        Change("train.epochs", 2, None),
        Change("train.steps", None, 5),
    ]
    assert changed(train={"epochs": 2, "compile": 0}) == [Change("train.compile", False, 0)]


def test_a_named_component_comes_and_goes_whole() -> None:
    top5 = {"type": "accuracy", "k": 5}
    assert changed(metrics={"top5": top5}) == [
        Change("metrics.accuracy", {"type": "accuracy", "k": 1}, None),
        Change("metrics.top5", None, top5),
    ]
    without = {key: value for key, value in BASE.items() if key != "metrics"}
    assert changes(BASE, without) == [Change("metrics.accuracy", {"type": "accuracy", "k": 1}, None)]


def test_the_order_of_hooks_is_one_change() -> None:
    hooks = {"ema": BASE["hooks"]["ema"], "progress": BASE["hooks"]["progress"]}
    assert changed(hooks=hooks) == [Change("hooks", ["progress", "ema"], ["ema", "progress"])]
    assert changed(hooks={"new": {}, **BASE["hooks"]}) == [Change("hooks.new", None, {})]


def test_what_comes_from_the_environment_says_so() -> None:
    (change,) = changed(model={"type": "mlp", "hidden": "${oc.env:H}"})
    assert change.is_from_environment
    assert not Change("a", "\\${x}", "y").is_from_environment
    assert environment_keys({"a": {"b": "${oc.env:H}", "c": "\\${x}"}}) == ["a.b"]


@pytest.mark.parametrize(("key", "effect"), [
    ("name", "takes effect"),
    ("train.epochs", "takes effect"),
    ("train.log_every", "takes effect"),
    ("hooks", "takes effect"),
    ("hooks.ema.decay", "takes effect"),
    ("loader.workers", "takes effect"),
    ("distributed.timeout", "takes effect"),
    ("model.hidden", "refused"),
    ("model.type", "refused"),
    ("optimizer.type", "refused"),
    ("optimizer.groups", "refused"),
    ("objective.type", "refused"),
    ("optimizer.lr", "wants --accept-changes"),
    ("model.weights", "wants --accept-changes"),
    ("train.precision", "wants --accept-changes"),
    ("train.global_batch_size", "wants --accept-changes"),
    ("dataset.train.split", "wants --accept-changes"),
    ("seed", "wants --accept-changes"),
])  # fmt: skip
def test_effect_of_a_changed_key(key, effect) -> None:
    assert effect_of(key)[0] == effect


def test_a_length_that_the_scheduler_was_told_wants_acceptance() -> None:
    change = Change("train.epochs", 2, 3)
    assert effects([change], scheduler_told_length=False)[0][1] == "takes effect"
    assert effects([change], scheduler_told_length=True) == [
        (change, "wants --accept-changes", "the scheduler was told the length of the run")
    ]
