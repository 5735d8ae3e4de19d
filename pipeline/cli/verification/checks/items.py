"""Whether a dataset's samples are the same whenever and wherever they are read."""

from __future__ import annotations

from pipeline.cli.verification import items
from pipeline.cli.verification.finding import Blame, Check, judged
from pipeline.cli.verification.probes import Probed
from pipeline.cli.verification.remedies import RESUMABLE

NAME, TITLE = "items", "a dataset's samples are the same when read again and by a worker"


def check(blame: Blame, probed: Probed, sample_seeds: object) -> Check:
    """Tell what reading twice has found."""
    findings = [
        blame.finding(key, trouble.message, trouble.remedy or RESUMABLE["dataset"])
        for key, trouble in probed.items.items()
    ]
    setting = str(sample_seeds).lower() if isinstance(sample_seeds, bool) else f'"{sample_seeds}"'
    detail = f"up to {items.COUNT} samples of each, with loader.sample_seeds = {setting}"
    return judged(NAME, TITLE, detail, findings)
