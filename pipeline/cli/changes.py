"""A config that differs from the one of the run it resumes: shown key by key, then taken or refused."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

from pipeline.config.compare import changes
from pipeline.config.config import Config, to_toml
from pipeline.config.resume import effects
from pipeline.errors import ConfigError, Problem, RunError
from pipeline.runs.layout import RunFolder
from pipeline.runs.record import Change


def accepted_changes(
    config: Config, folder: RunFolder, seed: int, *, accept: bool, say: Callable[[str], None]
) -> tuple[Change, ...]:
    """What differs, each with what happens to it; printed before the first step.

    Raises:
        ConfigError: if a change cannot be taken into the run, or was not accepted.
    """
    try:
        before = tomllib.loads(folder.config.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder.config}: cannot be read: {error}") from error
    after = tomllib.loads(to_toml(config, seed))
    taken: list[Change] = []
    problems: list[Problem] = []
    for change, effect, reason in effects(
        changes(before, after), scheduler_told_length=config.plan.scheduler is not None
    ):
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
