"""All ranks of an attempt find together over the launcher's store, before any process group.

The launcher's store outlasts an attempt: a restarted group finds in it what the former one left, and
nothing in the environment numbers the attempts alike on all hosts (torchrun's restart count is each
host's own, and stays when a host joins or leaves). So rank 0 opens each attempt under a new name, and
only a process that finds its own answer in the closed list belongs to it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from pipeline.api.duration import format_duration
from pipeline.errors import RunError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_OPEN = "roll call"
_POLL = 0.02  # seconds; a blocking wait in the store would keep signals from being handled


@dataclass(frozen=True)
class RollCall:
    """An attempt of which every rank has been heard."""

    attempt: str
    """Its name, which no other attempt of this launcher has."""
    told: tuple[str, ...]
    """What each rank said, in rank order."""


def call_roll(store: Store, rank: int, world_size: int, word: str, timeout: timedelta) -> RollCall:
    """Tell all ranks ``word`` and learn theirs.

    Args:
        store: the launcher's, as a whole.

    Raises:
        RunError: naming the ranks that were not heard of within ``timeout``.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    answer = json.dumps([uuid4().hex, word])
    if rank == 0:
        return _call(store, world_size, answer, timeout, deadline)
    return _answer(store, rank, answer, timeout, deadline)


def _call(store: Store, world_size: int, answer: str, timeout: timedelta, deadline: float) -> RollCall:
    name = uuid4().hex
    store.set(_OPEN, name)
    missing = list(range(1, world_size))
    while missing := [rank for rank in missing if not store.check([_key(name, rank)])]:
        if time.monotonic() > deadline:
            raise RunError(
                f"ranks {missing} have not started within distributed.prepare_timeout = "
                f'"{format_duration(timeout)}"; look into their logs, or raise it'
            )
        time.sleep(_POLL)
    answers = [answer, *(store.get(_key(name, rank)).decode() for rank in range(1, world_size))]
    store.set(_key(name, "all"), json.dumps(answers))
    return _heard(name, answers)


def _answer(store: Store, rank: int, answer: str, timeout: timedelta, deadline: float) -> RollCall:
    answered = ""
    while time.monotonic() < deadline:
        name = store.get(_OPEN).decode() if store.check([_OPEN]) else ""
        if name and name != answered:
            store.set(_key(name, rank), answer)
            answered = name
        if name and store.check([_key(name, "all")]):
            answers = json.loads(store.get(_key(name, "all")))
            if answer in answers:  # else it is a former attempt's, and rank 0 is still to come
                return _heard(name, answers)
        time.sleep(_POLL)
    raise RunError(
        f'rank 0 has not started within distributed.prepare_timeout = "{format_duration(timeout)}"; '
        "look into its log, or raise it"
    )


def _heard(name: str, answers: list[str]) -> RollCall:
    return RollCall(name, tuple(json.loads(answer)[1] for answer in answers))


def _key(name: str, who: int | str) -> str:
    return f"{_OPEN}/{name}/{who}"
