"""The config as it is, again and again: twice to the end, and once killed and resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.cli.verification.checks import determinism, kept_state, resume
from pipeline.cli.verification.evidence import Evidence, ranks_differ
from pipeline.cli.verification.finding import Blame, Check, Finding, judged, not_made
from pipeline.cli.verification.laboratory import Outcome
from pipeline.cli.verification.probes import Trouble
from pipeline.cli.verification.trial import Trial
from pipeline.cli.verification.trials import Trials

Ranks = Sequence[Evidence]


@dataclass(frozen=True)
class Repeats:
    """The trials; None where an earlier one leaves nothing to compare."""

    saved: int
    """The step of the checkpoint; the run is killed after the next one."""
    whole: Outcome
    elsewhere: Outcome | None = None
    """The same in processes that hash strings with another seed."""
    again: Outcome | None = None
    """The same in processes like those of ``whole``, made where ``elsewhere`` differs."""
    killed: Outcome | None = None
    resumed: Outcome | None = None


def repeat(trials: Trials, size: int, steps: int, steps_per_epoch: int | None) -> Repeats:
    """Make them with ``size`` processes."""
    saved = saved_step(steps, steps_per_epoch)
    plain = Trial(world_size=size, steps=steps, look_after=saved)
    whole = trials.make(plain)
    if not whole.complete:
        return Repeats(saved, whole)
    elsewhere = trials.make(replace(plain, elsewhere=True))
    again = None
    if elsewhere.complete and determinism.differ(whole.evidence(), elsewhere.evidence()):
        again = trials.make(plain)
    made = Repeats(saved, whole, elsewhere, again)
    if _why_not_killed(made):
        return made
    killed = trials.make(replace(plain, save_after=saved, kill_after=saved + 1))
    return replace(made, killed=killed, resumed=trials.resume(killed) if killed.killed else None)


def saved_step(steps: int, steps_per_epoch: int | None) -> int:
    """The step after which a checkpoint is written: in the middle, and of an epoch where that is possible."""
    middle = max((steps - 1) // 2, min(2, steps - 1))  # not 1, as what is lost may count to 1 at once again
    if steps_per_epoch and steps_per_epoch > 1 and middle % steps_per_epoch == 0 and middle + 1 < steps:
        return middle + 1
    return middle


def checks(repeats: Repeats, blame: Blame, metrics: Mapping[str, Trouble]) -> tuple[Check, Check, Check]:
    """Determinism, resume, and the state that is kept.

    Args:
        metrics: by key, what was found of a metric's states.
    """
    return _determinism(repeats, blame), _resume(repeats, blame), _state(repeats, blame, metrics)


def _determinism(repeats: Repeats, blame: Blame) -> Check:
    if repeats.elsewhere is None:
        return not_made(determinism.NAME, determinism.TITLE, "the run does not come to its end")
    if not repeats.elsewhere.complete:
        return _failed(determinism.NAME, determinism.TITLE, blame.by_outcome(repeats.elsewhere))
    again = repeats.again.evidence() if repeats.again and repeats.again.complete else []
    return determinism.check(blame, repeats.whole.evidence(), repeats.elsewhere.evidence(), again)


def _resume(repeats: Repeats, blame: Blame) -> Check:
    name, title = resume.NAME, resume.TITLE
    if why := _why_not_killed(repeats):
        return not_made(name, title, why)
    assert repeats.killed is not None
    if repeats.resumed is None:
        return _failed(name, title, blame.by_outcome(repeats.killed))
    if not repeats.resumed.complete:
        return _failed(name, title, blame.by_outcome(repeats.resumed))
    return resume.check(blame, repeats.whole.evidence(), repeats.resumed.evidence(), repeats.saved)


def _state(repeats: Repeats, blame: Blame, metrics: Mapping[str, Trouble]) -> Check:
    whole: Ranks = []
    again: Ranks = []
    resumed: Ranks = []
    if repeats.resumed is not None and repeats.resumed.complete:
        twin = repeats.again or repeats.elsewhere
        assert twin is not None  # else nothing was killed
        whole, again, resumed = repeats.whole.evidence(), twin.evidence(), repeats.resumed.evidence()
    return kept_state.check(blame, whole, again, resumed, repeats.saved, metrics)


def _failed(name: str, title: str, finding: Finding) -> Check:
    return judged(name, title, "", [finding])


def _why_not_killed(repeats: Repeats) -> str:
    """Why a resumed run would tell nothing; empty where it would."""
    if not repeats.whole.complete:
        return "the run does not come to its end"
    if not _repeatable(repeats):
        return "a second run differs without any kill"
    whole = repeats.whole.evidence()
    if ranks_differ(whole):
        return "the processes of one run differ without any kill"
    length = max(whole[0].values, default=0)
    if length <= repeats.saved:
        return f"the run has {length} steps, and is to be killed after {repeats.saved + 1}"
    return ""


def _repeatable(repeats: Repeats) -> bool:
    """Whether the same processes give the same again, so that a difference would be the resume's."""
    if repeats.elsewhere is None or not repeats.elsewhere.complete:
        return False
    if repeats.again is None:
        return True
    return repeats.again.complete and not determinism.differ(
        repeats.whole.evidence(), repeats.again.evidence()
    )
