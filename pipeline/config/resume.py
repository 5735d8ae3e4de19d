"""What a changed key means to a run that is resumed: the one table of it."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from pipeline.api.settings import LENGTH_KEYS
from pipeline.config.compare import Change

Effect: TypeAlias = Literal["takes effect", "refused", "wants --accept-changes"]
TAKES_EFFECT: Effect = "takes effect"
REFUSED: Effect = "refused"
WANTS_ACCEPTANCE: Effect = "wants --accept-changes"


_RULES: tuple[tuple[str, Effect, str], ...] = (
    ("name", TAKES_EFFECT, "a label"),
    ("components", TAKES_EFFECT, "where local components lie"),
    ("vars", TAKES_EFFECT, "only what refers to it counts"),
    ("vars.*", TAKES_EFFECT, "only what refers to it counts"),
    ("train.epochs", TAKES_EFFECT, "the length of the run"),
    ("train.steps", TAKES_EFFECT, "the length of the run"),
    ("train.evaluate_every", TAKES_EFFECT, "training does not depend on it"),
    ("train.eval_batch_size", TAKES_EFFECT, "training does not depend on it"),
    ("train.log_every", TAKES_EFFECT, "training does not depend on it"),
    ("train.stop_signals", TAKES_EFFECT, "training does not depend on it"),
    ("hooks", TAKES_EFFECT, "hooks run beside the training"),
    ("hooks.*", TAKES_EFFECT, "hooks run beside the training"),
    ("loader", TAKES_EFFECT, "how samples are read"),
    ("loader.*", TAKES_EFFECT, "how samples are read"),
    ("distributed", TAKES_EFFECT, "where the run runs"),
    ("distributed.*", TAKES_EFFECT, "where the run runs"),
    ("model.weights", WANTS_ACCEPTANCE, "a resumed run starts from its checkpoint, not from these"),
    ("model.weights.*", WANTS_ACCEPTANCE, "a resumed run starts from its checkpoint, not from these"),
    ("model.*", REFUSED, "the saved parameters belong to another model"),
    ("optimizer.type", REFUSED, "the saved state belongs to another optimizer"),
    ("optimizer.groups", REFUSED, "the saved state has other parameter groups"),
    ("objective.type", REFUSED, "the saved state belongs to another objective"),
    ("scheduler.type", REFUSED, "the saved state belongs to another scheduler"),
    ("sampler.type", WANTS_ACCEPTANCE, "the samples come in another order from here on"),
    ("*", WANTS_ACCEPTANCE, "the run is not the same from here on"),
)
"""The first pattern that a dotted key matches counts."""


def effect_of(key: str) -> tuple[Effect, str]:
    """What becomes of a changed key, and why."""
    return next((effect, reason) for pattern, effect, reason in _RULES if fnmatchcase(key, pattern))


def effects(changed: Iterable[Change], *, scheduler_told_length: bool) -> list[tuple[Change, Effect, str]]:
    """Each change of a run's config with what becomes of it on resume, and why.

    Args:
        scheduler_told_length: whether the scheduler was built with the number of steps of the run.
    """
    found: list[tuple[Change, Effect, str]] = []
    for change in changed:
        effect, reason = effect_of(change.key)
        if scheduler_told_length and change.key in LENGTH_KEYS:
            effect, reason = WANTS_ACCEPTANCE, "the scheduler was told the length of the run"
        found.append((change, effect, reason))
    return found
