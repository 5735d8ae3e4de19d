"""Which trials ``pipeline verify`` makes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pipeline.cli.verification.checks import runs
from pipeline.cli.verification.evidence import Entry, Evidence, first_difference
from pipeline.cli.verification.ladder import climb
from pipeline.cli.verification.repeats import saved_step


@pytest.mark.parametrize(
    ("steps", "steps_per_epoch", "saved"),
    [
        (8, 23, 3),
        (8, 3, 4),  # not at an epoch's end
        (8, 1, 3),  # where every step is one
        (8, None, 3),  # an iterable dataset
        (4, 3, 2),
        (3, 2, 2),  # too short to choose
        (2, 9, 1),
        (100, 7, 50),
    ],
)
def test_the_checkpoint_is_in_the_middle_of_an_epoch(steps, steps_per_epoch, saved):
    assert saved_step(steps, steps_per_epoch) == saved
    assert saved < steps


@dataclass
class Stub:
    """Trials that always end well, on a host with some devices; and what was asked for."""

    devices: int | None
    complete: bool = True
    sizes: list[int] = field(default_factory=list)

    def make(self, trial):
        self.sizes.append(trial.world_size)
        return self

    def evidence(self):
        return [Evidence(devices=self.devices)]


@pytest.mark.parametrize(
    ("devices", "tried", "left"), [(None, [1, 2, 4], ()), (2, [1, 2], (4,)), (1, [1], (2, 4))]
)
def test_no_more_processes_than_devices(devices, tried, left):
    stub = Stub(devices)
    ladder = climb(stub, 4, [1, 2, 4])
    assert (stub.sizes, ladder.left) == (tried, left)
    assert [*ladder.evidence] == tried
    notes = runs.check(None, (), tried, left, 4).notes
    assert [
        f"not tried with {size} processes, since this host has fewer devices" in note
        for size, note in zip(left, notes, strict=True)
    ] == [True] * len(left)


def entry(component, what, digest="", step=1):
    return Entry(step, component, what, digest, shared=False)


@pytest.mark.parametrize(
    ("one", "two", "component", "what"),
    [
        ([entry("model", "its output", "a")], [entry("model", "its output", "b")], "model", "its output"),
        # A value that was changed on the way: who changed it in either run.
        (
            [entry("model", "the parameters")],
            [entry("hooks.h", "the parameters", "b")],
            "hooks.h",
            "the parameters",
        ),
        # In one run alone something was changed, before what both have.
        (
            [entry("scheduler", "the learning rate"), entry("objective", "the loss")],
            [entry("objective", "the loss")],
            "scheduler",
            "the learning rate",
        ),
        (
            [entry("objective", "the loss")],
            [entry("hooks.h", "the parameters"), entry("objective", "the loss")],
            "hooks.h",
            "the parameters",
        ),
        # Each has something that the other has not: neither is known to be the first.
        ([entry("hooks.a", "the parameters")], [entry("hooks.b", "the learning rate")], "", "the parameters"),
        ([], [entry("model", "its output")], "model", "its output"),
    ],
)
def test_traces_that_part_blame_who_brought_about_the_first_difference(one, two, component, what):
    same = entry("sampler", "the order")
    difference = first_difference([same, *one], [same, *two])
    assert (difference.component, difference.entry.what) == (component, what)


def test_traces_of_equal_values_do_not_part():
    assert first_difference([entry("model", "its output")], [entry("objective", "its output")]) is None
