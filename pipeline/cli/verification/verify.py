"""The course of a verification: which trials are made, and what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.cli.verification import repeats
from pipeline.cli.verification.checks import (
    determinism,
    gradients,
    invariance,
    items,
    kept_state,
    once,
    resume,
    runs,
)
from pipeline.cli.verification.finding import Blame, Check, judged, not_made
from pipeline.cli.verification.laboratory import Outcome
from pipeline.cli.verification.ladder import Ladder, climb
from pipeline.cli.verification.probes import Probed
from pipeline.cli.verification.rank import evidence_file
from pipeline.cli.verification.trials import Trials
from pipeline.config.config import Config
from pipeline.config.plan import Plan

_WITHOUT_A_RUN = (gradients, invariance, once, determinism, resume, items, kept_state)


def verify(trials: Trials, config: Config, *, steps: int, world_sizes: Sequence[int]) -> tuple[Check, ...]:
    """Make the trials of a config and compare what they leave; gives every check, in a fixed order.

    Args:
        steps: of each trial, at least 2.
        world_sizes: ascending.
    """
    blame, plan = Blame(config), config.plan
    ladder = climb(trials, steps, world_sizes)
    if not ladder.evidence:
        why = "it does not run"
        ran = runs.check(blame, ladder.failed, world_sizes[:1], (), steps)
        return (ran, *(not_made(check.NAME, check.TITLE, why) for check in _WITHOUT_A_RUN))
    first = ladder.smallest
    probe = trials.probe(double=ladder.double)
    probed = Probed.read(evidence_file(Path(probe.order.folder), 0)) if probe.complete else Probed()
    made = len(first.values)  # fewer where the run is shorter
    repeated = repeats.repeat(trials, max(ladder.evidence), made, first.steps_per_epoch)
    failed = ladder.failed if repeated.whole.complete else (*ladder.failed, repeated.whole)
    sizes = [size for size in world_sizes if size not in ladder.left]
    same_twice, resumed, state = repeats.checks(repeated, blame, probed.metrics)
    return (
        runs.check(blame, failed, sizes, ladder.left, steps),
        gradients.check(blame, first, allowed=plan.distributed.find_unused_parameters),
        _invariance(blame, ladder, probed, repeated),
        once.check(blame, ladder.evidence, probed),
        same_twice,
        resumed,
        _items(blame, plan, probe, probed),
        state,
    )


def _invariance(blame: Blame, ladder: Ladder, probed: Probed, repeated: repeats.Repeats) -> Check:
    if set(ladder.evidence) == {1}:
        return not_made(invariance.NAME, invariance.TITLE, "there are no two world sizes to compare")
    plain = repeated.whole.evidence() if repeated.whole.complete else []
    tolerance = invariance.DOUBLE if ladder.double else invariance.SINGLE
    suspects = invariance.Suspects(mean_objective=probed.mean_objective, in_batch=probed.in_batch)
    return invariance.check(blame, ladder.evidence, plain, tolerance, suspects)


def _items(blame: Blame, plan: Plan, probe: Outcome, probed: Probed) -> Check:
    if not probe.complete:
        return judged(items.NAME, items.TITLE, "", [blame.by_outcome(probe)])
    return items.check(blame, probed, plan.loader.sample_seeds)
