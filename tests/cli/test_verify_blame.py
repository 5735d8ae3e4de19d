"""Planted faults: each is found by ``verify`` and blamed on the component that has it, and on no other."""

from __future__ import annotations

from itertools import count as counting

import pytest

from pipeline.cli.loading import load_with_registry
from pipeline.cli.verification.laboratory import laboratories
from pipeline.cli.verification.trial import Subject
from pipeline.cli.verification.trials import Trials
from pipeline.cli.verification.verify import verify
from planted_faults import FAULTS, PLANTED
from tiny_runs import write_tiny


@pytest.fixture(scope="module")
def both_laboratories():
    with laboratories() as both:
        yield both


@pytest.fixture
def verified(both_laboratories, tmp_path):
    """``verified(*sets)``: the checks of a tiny config with a planted part, by name."""
    numbers = counting()

    def run(*sets, world_sizes=(1, 2), steps=4):
        path = write_tiny(tmp_path / "config", f"components = {[str(file) for file in PLANTED]}\n")
        sets = ("train.steps=50", *sets)
        folder = tmp_path / f"trials-{next(numbers)}"
        folder.mkdir()
        subject = Subject(config=str(path), sets=sets, unsets=(), seed=1)
        trials = Trials(subject, folder, *both_laboratories, lambda line: None)
        config = load_with_registry(path, sets=sets).config
        return {check.name: check for check in verify(trials, config, steps=steps, world_sizes=world_sizes)}

    return run


def pytest_generate_tests(metafunc):
    if "planted" in metafunc.fixturenames:
        soak = metafunc.config.getoption("--soak")
        metafunc.parametrize("planted", [one for one in FAULTS if soak or one.always], ids=str)


def test_a_planted_fault_is_found_and_blamed_on_its_component(planted, verified):
    checks = verified(*planted.sets, world_sizes=(1,) if planted.ranks == 1 else (1, planted.ranks))
    findings = [finding for check in checks.values() for finding in check.findings]
    shown = "\n".join(map(str, findings))
    assert {name for name, one in checks.items() if one.verdict == "failed"} == set(planted.checks.split()), (
        shown
    )
    assert {finding.component for finding in findings} == {planted.component}, shown
    said = "\n".join(map(str, checks[planted.checks.split()[0]].findings))
    assert all(words in said for words in planted.words), said
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


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (
            "objective={type='contrastive'}",
            "in-batch effects: the loss of a batch is no sum over its samples",
        ),
        ("model={type='noisy_forward'}", "model draws random numbers in training, from torch"),
        ("dataset.train={type='stream'}", "dataset.train is iterable"),
    ],
)
def test_gradients_that_depend_on_ranks_by_intention_are_told_and_not_compared(verified, part, note):
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


def test_where_nothing_can_be_told_nobody_is_blamed(verified):
    checks = verified("hooks.vanishing={}")
    (finding,) = checks["runs"].findings
    assert (finding.component, finding.place) == ("", "")
    assert str(finding).startswith("unknown: 4 steps with one process")
    assert "ended with status 7" in str(finding)
    assert {name for name, check in checks.items() if check.verdict == "not made"} == checks.keys() - {"runs"}
