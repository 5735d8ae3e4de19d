"""Whether the same config run twice gives the same bits."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pipeline.cli.verification.evidence import Evidence, first_difference
from pipeline.cli.verification.finding import Blame, Check, Finding, judged
from pipeline.cli.verification.remedies import REPEATABLE
from pipeline.cli.verification.trial import processes

NAME, TITLE = "determinism", "the same twice"


def check(blame: Blame, one: Sequence[Evidence], two: Sequence[Evidence], again: Sequence[Evidence]) -> Check:
    """Compare two trials, rank by rank, bit for bit.

    Args:
        two: from processes that hash strings with another seed.
        again: from processes like those of ``one``; empty where it was not needed.
    """
    findings = [_found(blame, *pair, hashing=_agree(one, again)) for pair in zip(one, two, strict=True)]
    steps = max(one[0].values, default=0)
    detail = f"{steps} steps with {processes(len(one))}, bit for bit"
    if "PYTHONHASHSEED" not in os.environ:
        detail += ", strings hashed with two seeds"
    return judged(NAME, TITLE, detail, [finding for finding in findings if finding])


def differ(one: Sequence[Evidence], two: Sequence[Evidence]) -> bool:
    """Whether any rank saw something else."""
    return any(first_difference(a.trace, b.trace) for a, b in zip(one, two, strict=True))


def _agree(one: Sequence[Evidence], again: Sequence[Evidence]) -> bool:
    return bool(again) and not differ(one, again)


def _found(blame: Blame, one: Evidence, two: Evidence, *, hashing: bool) -> Finding | None:
    difference = first_difference(one.trace, two.trace)
    if difference is None:
        return None
    entry = difference.entry
    when = f"at step {entry.step}" if entry.step else "before the first step"
    message = f"{when} a second run differs in {entry.what}, all before it being equal"
    if hashing:
        remedy = "it depends on how strings are hashed: sort what comes from a set or from hash()"
        return blame.finding(difference.component, message, remedy)
    return blame.finding(difference.component, message, REPEATABLE.get(blame.kind(difference.component), ""))
