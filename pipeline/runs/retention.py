"""Which checkpoints are kept, and which is the best: pure functions of what is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["min", "max"]


@dataclass(frozen=True)
class Score:
    """The monitored metric's value when a checkpoint was written."""

    metric: str
    value: float
    mode: Mode


@dataclass(frozen=True)
class Scored:
    """A checkpoint as retention sees it."""

    name: str
    step: int
    score: Score | None = None


@dataclass(frozen=True)
class Retention:
    """How many checkpoints are kept; the newest and the best always are."""

    keep_last: int | None = 2
    """None: all."""
    keep_best: int = 1


def better(new: float, old: float | None, mode: Mode) -> bool:
    """Whether ``new`` takes the place of ``old`` (None: none yet): NaN never does, nor does a tie."""
    if math.isnan(new):
        return False
    if old is None or math.isnan(old):
        return True
    return new > old if mode == "max" else new < old


def ranked(checkpoints: Sequence[Scored]) -> list[Scored]:
    """Those with a value to compare, best first, the earlier first where they tie.

    Values compare with those of the newest scored checkpoint's metric and mode; after a change of
    the monitored metric the old ones count no more.
    """
    by_step = sorted(checkpoints, key=lambda one: one.step)
    scores = [one.score for one in by_step if one.score is not None]
    if not scores:
        return []
    metric, mode = scores[-1].metric, scores[-1].mode
    comparable = [
        (one.score.value, one)
        for one in by_step
        if one.score is not None
        and (one.score.metric, one.score.mode) == (metric, mode)
        and not math.isnan(one.score.value)
    ]
    # sorted() keeps the order of equal values also when reversed: the earlier step stays first
    return [one for _, one in sorted(comparable, key=lambda pair: pair[0], reverse=mode == "max")]


def best_of(checkpoints: Sequence[Scored]) -> Scored | None:
    """The best, or None where none has a value."""
    return next(iter(ranked(checkpoints)), None)


def surplus(checkpoints: Sequence[Scored], retention: Retention) -> list[str]:
    """The names to delete, oldest first."""
    by_step = sorted(checkpoints, key=lambda one: one.step)
    keep_last = len(by_step) if retention.keep_last is None else max(1, retention.keep_last)
    kept = {one.name for one in by_step[max(0, len(by_step) - keep_last) :]}
    kept |= {one.name for one in ranked(checkpoints)[: max(1, retention.keep_best)]}
    return [one.name for one in by_step if one.name not in kept]
