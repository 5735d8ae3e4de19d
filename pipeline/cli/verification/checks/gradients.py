"""Whether every parameter in training gets a gradient."""

from __future__ import annotations

from pipeline.cli.verification.evidence import Evidence
from pipeline.cli.verification.finding import Blame, Check, judged

NAME, TITLE = "gradients", "no parameter without a gradient"
_SHOWN = 5


def check(blame: Blame, evidence: Evidence, *, allowed: bool) -> Check:
    """Look at one process, where nothing stands in the way of a missing gradient.

    Args:
        allowed: distributed.find_unused_parameters is on, so that they may be missing.
    """
    missing = evidence.without_gradient
    detail = f"all gradients of {max(evidence.values, default=0)} steps in one process"
    notes, findings = [], []
    for owner in ("model", "objective"):
        names = [name for name in missing if name.startswith("objective.") == (owner == "objective")]
        if not names:
            continue
        shown = ", ".join(names[:_SHOWN]) + (
            f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        )
        message = f"no loss depends on its parameters {shown}"
        if allowed:
            notes.append(f"{owner}: {message}, which distributed.find_unused_parameters allows")
        else:
            remedy = "use them, name them in model.freeze, or set distributed.find_unused_parameters = true"
            findings.append(blame.finding(owner, message, remedy))
    return judged(NAME, TITLE, detail, findings, tuple(notes))
