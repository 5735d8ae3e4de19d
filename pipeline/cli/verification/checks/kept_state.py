"""Whether hooks save what they keep, and metrics declare it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.cli.verification.evidence import Evidence
from pipeline.cli.verification.finding import Blame, Check, judged
from pipeline.cli.verification.lost import Lost, comes_back, lost_attributes
from pipeline.cli.verification.probes import Trouble
from pipeline.cli.verification.remedies import RESUMABLE

NAME, TITLE = "state", "hooks and metrics keep no state that is lost"

_HAVE_NO_CHECKPOINT = ("metrics.", "dataset.", "sampler")  # their promise is to need none


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
        whole: empty where no run was resumed.
        again: another uninterrupted trial; what differs there, as a clock does, is no state.
        metrics: by key, what was found when a metric's states were joined.
    """
    findings = [
        blame.finding(component, trouble.message, trouble.remedy or RESUMABLE["metric"])
        for component, trouble in metrics.items()
    ]
    notes = []
    for ranks in zip(whole, again, resumed, strict=True):
        for component, lost in _lost(*ranks, saved):
            if not component.startswith("hooks."):
                notes.append(f"{component}: no checkpoint holds what changes: {lost}")
            elif component not in ranks[0].measuring:  # else it keeps clocks and counts for its measure
                message = f"its state_dict does not hold all that changes: {lost}"
                findings.append(blame.finding(component, message, RESUMABLE["hook"]))
    detail = (
        f"attributes before a kill after step {saved} and after the resume" if whole else "no resumed run"
    )
    return judged(
        NAME, TITLE, f"{detail}; metrics joined from two shares", findings, tuple(dict.fromkeys(notes))
    )


def _lost(whole: Evidence, again: Evidence, resumed: Evidence, saved: int) -> Iterator[tuple[str, Lost]]:
    """Of each component that a checkpoint may hold the first attribute that is lost, by its key."""
    for component in whole.attributes.get(saved + 1, {}):
        if component.startswith(_HAVE_NO_CHECKPOINT):
            continue
        twice = again.attributes.get(saved + 1, {}).get(component, {})
        for lost in lost_attributes(whole, resumed, component, saved):
            if twice.get(lost.name) == lost.before and not comes_back(lost, whole, resumed, component):
                yield component, lost
                break
