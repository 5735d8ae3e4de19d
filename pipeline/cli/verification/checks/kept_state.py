"""Whether hooks save what they keep, and metrics declare it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.cli.verification.checks.resume import lost_attributes
from pipeline.cli.verification.evidence import Evidence
from pipeline.cli.verification.finding import Blame, Check, Finding, judged
from pipeline.cli.verification.probes import Trouble
from pipeline.cli.verification.remedies import RESUMABLE

NAME, TITLE = "state", "hooks and metrics keep no state that is lost"


def check(
    blame: Blame,
    whole: Sequence[Evidence],
    again: Sequence[Evidence],
    resumed: Sequence[Evidence],
    saved: int,
    metrics: Mapping[str, Trouble],
) -> Check:
    """Look at the attributes of hooks before and after a resume.

    Args:
        again: another uninterrupted trial; what differs there, as a clock does, is no state.
        metrics: by key, what was found when a metric's states were joined.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    for one, other, after in zip(whole, again, resumed, strict=True):
        for component, before in one.attributes.get(saved + 1, {}).items():
            twice = other.attributes.get(saved + 1, {}).get(component, {})
            lost = [
                text
                for text in lost_attributes(one, after, component, saved)
                if twice.get(name := text.partition(" was ")[0]) == before[name]
            ]
            if not lost:
                continue
            if component.startswith("hooks.") and not _is_measure(one, component):
                message = f"its state_dict does not hold all that changes: its attribute {lost[0]}"
                findings.append(blame.finding(component, message, RESUMABLE["hook"]))
            elif not component.startswith(("hooks.", "metrics.", "dataset.")):
                notes.append(f"{component}: no checkpoint holds its attribute {lost[0]}")
    for component, trouble in metrics.items():
        findings.append(blame.finding(component, trouble.message, trouble.remedy or RESUMABLE["metric"]))
    if not whole:
        detail = "metrics joined from two shares; no resumed run to look at hooks in"
        return judged(NAME, TITLE, detail, findings)
    detail = (
        f"attributes before a kill after step {saved} and after the resume; metrics joined from two shares"
    )
    return judged(NAME, TITLE, detail, findings, tuple(dict.fromkeys(notes)))


def _is_measure(evidence: Evidence, component: str) -> bool:
    """Whether a hook logs what it measures, as a rate: it keeps clocks and counts for it alone."""
    return component in evidence.measuring
