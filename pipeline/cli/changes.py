"""A config that differs from the one of the run it resumes: shown key by key, then taken or refused."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

from pipeline.cli.loading import Loaded
from pipeline.config.compare import changes
from pipeline.config.config import to_toml
from pipeline.config.resume import effects
from pipeline.errors import ConfigError, Problem, RunError
from pipeline.runs.layout import RunFolder
from pipeline.runs.record import Change

_LENGTHS = ("total_steps", "steps_per_epoch")


def accepted_changes(
    loaded: Loaded, folder: RunFolder, seed: int, *, accept: bool, say: Callable[[str], None]
) -> tuple[Change, ...]:
    """What differs, each with what happens to it; printed before the first step.

    Raises:
        ConfigError: if a change cannot be taken into the run, or was not accepted.
    """
    config = loaded.config
    try:
        before = tomllib.loads(folder.config.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder.config}: cannot be read: {error}") from error
    after = tomllib.loads(to_toml(config, seed))
    taken: list[Change] = []
    problems: list[Problem] = []
    for change, effect, reason in effects(changes(before, after), scheduler_told_length=_told_length(loaded)):
        if effect == "refused" or (effect != "takes effect" and not accept):
            place = config.places.get(change.key)
            message = f"was {change.before!r}, is {change.after!r}: {effect} ({reason})"
            problems.append(Problem(str(place) if place else str(config.path), change.key, message))
        else:
            taken.append(
                Change(
                    change.key,
                    change.before,
                    change.after,
                    "takes effect" if effect == "takes effect" else "accepted",
                )
            )
    for one in taken:
        say(f"changed: {one.key}: {one.before!r} -> {one.after!r} ({one.effect})")
    if problems:
        raise ConfigError(problems)
    return tuple(taken)


def _told_length(loaded: Loaded) -> bool:
    """Whether the scheduler was built with the number of steps of the run."""
    scheduler = loaded.config.plan.scheduler
    return scheduler is not None and not loaded.registry.takes(scheduler).isdisjoint(_LENGTHS)
