"""Which trials ``pipeline verify`` makes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pipeline.cli.verification.checks import runs
from pipeline.cli.verification.evidence import Evidence
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
