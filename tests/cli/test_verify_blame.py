"""Planted faults: each is found by ``verify`` and blamed on the component that has it, and on no other."""

from __future__ import annotations

from functools import partial
from itertools import count as counting
from pathlib import Path

import pytest

from pipeline.cli.loading import load_with_registry
from pipeline.cli.verification.laboratory import laboratories
from pipeline.cli.verification.trial import Subject
from pipeline.cli.verification.trials import Trials
from pipeline.cli.verification.verify import verify
from planted_faults import FAULTS, PLANTED
from tiny_runs import write_tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def both_laboratories():
    with laboratories() as both:
        yield both


@pytest.fixture
def verified_file(both_laboratories, tmp_path):
    """``verified_file(path, *sets)``: the checks of a config, by name."""
    numbers = counting()

    def run(path, *sets, world_sizes=(1, 2), steps=4):
        folder = tmp_path / f"trials-{next(numbers)}"
        folder.mkdir()
        subject = Subject(config=str(path), sets=sets, unsets=(), seed=1)
        trials = Trials(subject, folder, *both_laboratories, lambda line: None)
        config = load_with_registry(path, sets=sets).config
        return {check.name: check for check in verify(trials, config, steps=steps, world_sizes=world_sizes)}

    return run


@pytest.fixture
def verified(verified_file, tmp_path):
    """``verified(*sets)``: those of a tiny config with planted parts."""
    path = write_tiny(tmp_path / "config", f"components = {[str(file) for file in PLANTED]}\n")
    return partial(verified_file, path, "train.steps=50")


INTENDED = [
    ("objective={type='contrastive'}", "in-batch effects: the loss of a batch is no sum over its samples"),
    ("model={type='noisy_forward'}", "model draws random numbers in training, from torch"),
    ("dataset.train={type='stream'}", "dataset.train is iterable"),
]
CONFIGS = ["pipeline.toml", "examples/digits_convnet.toml", "examples/char_transformer.toml"]


def pytest_generate_tests(metafunc):
    """One of each sort always, and all of them in a soak, since each takes seconds."""
    soak = metafunc.config.getoption("--soak")
    if "planted" in metafunc.fixturenames:
        metafunc.parametrize("planted", [one for one in FAULTS if soak or one.always], ids=str)
    if "intended" in metafunc.fixturenames:
        metafunc.parametrize("intended", INTENDED if soak else INTENDED[:1], ids=lambda one: one[0])
    if "shipped" in metafunc.fixturenames:
        metafunc.parametrize("shipped", CONFIGS if soak else CONFIGS[:1])


@pytest.mark.few
def test_a_planted_fault_is_found_and_blamed_on_its_component(planted, verified):
    checks = verified(*planted.sets, world_sizes=(1,) if planted.ranks == 1 else (1, planted.ranks))
    findings = [finding for check in checks.values() for finding in check.findings]
    shown = "\n".join(map(str, findings))
    assert {name for name, one in checks.items() if one.verdict == "failed"} == set(planted.checks.split()), (
        shown
    )
    assert {finding.component for finding in findings} == {planted.component}, shown
    assert all(words in shown for words in planted.words), shown
    assert all(finding.place for finding in findings)


def test_what_is_no_fault_is_told_as_none(verified):
    """Dropout, batch norm, seeded augmentation, hooks that save or measure: the limits of it are said."""
    checks = verified(
        "model={type='dropping'}",
        "dataset.train={type='jittered'}",
        "hooks.remembering={}",
        "hooks.lazy={}",
        "hooks.timing={}",
        "hooks.ema={decay=0.9}",
        "hooks.early_stopping={monitor='eval/loss'}",
        "hooks.throughput={}",
        "hooks.progress={}",
        "scheduler={type='warmup_cosine',warmup_steps=2}",
    )
    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(checks, "passed")
    (note,) = checks["invariance"].notes
    assert "model.norm (BatchNorm1d), model.dropout (Dropout)" in note


def test_gradients_that_depend_on_ranks_by_intention_are_told_and_not_compared(verified, intended):
    part, note = intended
    checks = verified(part, "hooks.checkpoint.every='never'")
    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(checks, "passed")
    assert [note in one for one in checks["invariance"].notes] == [True]


def test_what_takes_no_float64_is_compared_in_float32(verified):
    checks = verified("model={type='single_only'}")
    assert {check.verdict for check in checks.values()} == {"passed"}
    assert "float32, to 0.0001 of the norm of all in step 1" in checks["invariance"].detail


def test_a_run_shorter_than_the_steps_is_killed_before_its_end(verified):
    checks = verified("train.steps=3", steps=8, world_sizes=(1,))
    assert checks["resume"].verdict == "passed"
    assert "steps 3 to 3 compared" in checks["resume"].detail


def test_the_configs_of_the_repository_keep_all_promises(verified_file, tmp_path, count, shipped):
    steps = count(3, 8)
    text = tmp_path / "input.txt"
    text.write_text("".join(f"{number}\n" for number in range(4000)))
    small = [f"vars.text='{text}'", "vars.context=16", "model.width=16", "model.depth=1"]
    checks = verified_file(ROOT / shipped, *(small if "char" in shipped else ()), steps=steps)
    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(checks, "passed")
    assert [note for check in checks.values() for note in check.notes if "dropout" not in note] == []


def test_where_nothing_can_be_told_nobody_is_blamed(verified):
    checks = verified("hooks.vanishing={}")
    (finding,) = checks["runs"].findings
    assert (finding.component, finding.place) == ("", "")
    assert str(finding).startswith("unknown: 4 steps with one process")
    assert "ended with status 7" in str(finding)
    assert {name for name, check in checks.items() if check.verdict == "not made"} == checks.keys() - {"runs"}
