"""The same trial at every world size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.cli.verification.evidence import Evidence
from pipeline.cli.verification.laboratory import Outcome
from pipeline.cli.verification.trial import Trial
from pipeline.cli.verification.trials import Trials


@dataclass(frozen=True)
class Ladder:
    """What trials without dropout and batch statistics have come to."""

    evidence: Mapping[int, Sequence[Evidence]]
    """By world size, of those that ran to their end; empty where the smallest did not."""
    failed: tuple[Outcome, ...]
    left: tuple[int, ...]
    """World sizes with more processes than this host has devices."""
    double: bool
    """In float64; float32 where the components do not take that."""

    @property
    def smallest(self) -> Evidence:
        return self.evidence[min(self.evidence)][0]


def climb(trials: Trials, steps: int, world_sizes: Sequence[int]) -> Ladder:
    """Make them, the smallest first.

    Args:
        world_sizes: ascending.
    """
    smallest, *larger = world_sizes
    double = True
    outcome = trials.make(_trial(smallest, steps, double=double))
    if not outcome.complete:
        double = False
        outcome = trials.make(_trial(smallest, steps, double=double))
    if not outcome.complete:
        return Ladder({}, (outcome,), (), double)
    evidence = {smallest: outcome.evidence()}
    devices = evidence[smallest][0].devices
    left = tuple(size for size in larger if devices is not None and size > devices)
    failed = []
    for size in larger:
        if size in left:
            continue
        outcome = trials.make(_trial(size, steps, double=double))
        if outcome.complete:
            evidence[size] = outcome.evidence()
        else:
            failed.append(outcome)
    return Ladder(evidence, tuple(failed), left, double)


def _trial(world_size: int, steps: int, *, double: bool) -> Trial:
    return Trial(world_size=world_size, steps=steps, neutral=True, double=double)
