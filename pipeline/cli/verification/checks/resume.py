"""Whether a killed and resumed run goes on as one that was not killed."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.cli.verification.evidence import Evidence, first_difference
from pipeline.cli.verification.finding import Blame, Check, Finding, judged
from pipeline.cli.verification.lost import lost_attributes
from pipeline.cli.verification.remedies import RESUMABLE
from pipeline.cli.verification.trial import processes

NAME, TITLE = "resume", "the same after a kill and a resume"


def check(blame: Blame, whole: Sequence[Evidence], resumed: Sequence[Evidence], saved: int) -> Check:
    """Compare what came after the checkpoint of step ``saved``, rank by rank, bit for bit."""
    findings = [_found(blame, *pair, saved) for pair in zip(whole, resumed, strict=True)]
    steps = max(whole[0].values, default=0)
    detail = (
        f"saved after step {saved}, all processes killed after step {saved + 1}, resumed, and steps "
        f"{saved + 1} to {steps} compared bit for bit, with {processes(len(whole))}"
    )
    return judged(NAME, TITLE, detail, [finding for finding in findings if finding])


def _found(blame: Blame, whole: Evidence, resumed: Evidence, saved: int) -> Finding | None:
    one, two = ([entry for entry in rank.trace if entry.step > saved] for rank in (whole, resumed))
    difference = first_difference(one, two)
    if difference is None:
        return None
    component, entry = difference.component, difference.entry
    lost = lost_attributes(whole, resumed, component, saved)
    message = f"at step {entry.step} the killed and resumed run differs in {entry.what}"
    if lost:
        message += f": {lost[0]}"
    return blame.finding(component, message, RESUMABLE.get(blame.kind(component), ""))
