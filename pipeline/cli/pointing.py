"""The key that an error means: what a component says of its own arguments is taken at its word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipeline.config.plan import Place
from pipeline.errors import Problem

_DOTTED = re.compile(r"[\w-]+(?:\.[\w-]+)+")
_SAID = re.compile(r"([\w-]+) = ")


def pointed(problem: Problem, places: Mapping[str, Place]) -> Problem:
    """The problem of a component that cannot be built, at the first key of the config that it names.

    That is a whole key, as ``train.global_batch_size``, or an argument of the component with its
    value, as ``warmup_steps = 500``.
    """
    for key in _named(problem):
        if key in places:
            message = problem.message.replace(f": {key}: ", ": ", 1)
            return replace(problem, place=str(places[key]), key=key, message=message)
    return problem


def _named(problem: Problem) -> Iterator[str]:
    _, _, reason = problem.message.partition(" cannot be built: ")
    yield from _DOTTED.findall(reason)
    yield from (f"{problem.key}.{name}" for name in _SAID.findall(reason))
