"""Whether the config runs at all, at every world size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.cli.verification.finding import Blame, Check, judged
from pipeline.cli.verification.laboratory import Outcome
from pipeline.cli.verification.trial import processes

NAME, TITLE = "runs", "it runs"


def check(
    blame: Blame, failed: Iterable[Outcome], sizes: Sequence[int], too_large: Sequence[int], steps: int
) -> Check:
    """Name who failed.

    Args:
        sizes: the world sizes tried.
        too_large: those left out, since this host has too few devices.
    """
    notes = tuple(
        f"not tried with {processes(size)}, since this host has fewer devices; "
        '--set distributed.device="cpu" tries it without them'
        for size in too_large
    )
    detail = f"{steps} steps with {' and '.join(map(processes, sizes))}"
    return judged(NAME, TITLE, detail, [blame.by_outcome(outcome) for outcome in failed], notes)
