"""Rank 0's decision told to the other ranks through the launcher's store, before any process group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.api.duration import format_duration
from pipeline.cli.output import status_of
from pipeline.engine.agreement import Facts, differing, table
from pipeline.errors import RunError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_KEY = "choice"
_FACTS = "facts"
_REFUSED = "refused "
_PATIENCE = 3.0  # seconds
_POLL = 0.02  # seconds; a blocking wait in the store would keep signals from being handled


class RefusedError(RunError):
    """Rank 0 has refused to begin, or was stopped before it could, and says why itself."""

    def __init__(self, status: int) -> None:
        super().__init__("rank 0 does not begin; its own message says why")
        self.status = status


def tell_choice(store: Store | None, world_size: int, decide: Callable[[], str]) -> str:
    """Decide, on rank 0, and let the others know; also if it fails."""
    if store is None:
        return decide()
    try:
        text = decide()
    except BaseException as error:
        store.set(_KEY, f"{_REFUSED}{status_of(error)}")
        _await_answers(store, world_size)
        raise
    store.set(_KEY, text)
    return text


def await_choice(store: Store, rank: int, facts: Facts) -> str:
    """Rank 0's decision, on another rank, which tells it what it has.

    Raises:
        RefusedError: if rank 0 cannot begin.
    """
    store.set(f"{_FACTS}/{rank}", json.dumps(facts))
    while not store.check([_KEY]):
        time.sleep(_POLL)
    text: str = store.get(_KEY).decode()
    if text.startswith(_REFUSED):
        store.set(f"{_KEY}/{rank}", "seen")
        raise RefusedError(int(text.removeprefix(_REFUSED)))
    return text


def require_same(store: Store | None, world_size: int, facts: Facts, timeout: timedelta) -> None:
    """Compare, on rank 0, what all ranks must have alike; the others tell it in ``await_choice``.

    Raises:
        RunError: with a table of who has what; or if ranks are missing after ``timeout``.
    """
    if store is None:
        return
    keys = [f"{_FACTS}/{rank}" for rank in range(1, world_size)]
    deadline = time.monotonic() + timeout.total_seconds()
    while not store.check(keys):
        if time.monotonic() > deadline:
            missing = [rank for rank, key in enumerate(keys, start=1) if not store.check([key])]
            raise RunError(
                f"ranks {missing} have not begun within distributed.prepare_timeout = "
                f'"{format_duration(timeout)}"; look into their logs, or raise it'
            )
        time.sleep(_POLL)
    by_rank = [facts, *(json.loads(store.get(key)) for key in keys)]
    if differing(by_rank):
        raise RunError(f"the ranks were not started with the same:\n{table(by_rank)}")


def _await_answers(store: Store, world_size: int) -> None:
    """Let the others see the refusal before this rank leaves, and the launcher ends them or the store goes.

    One that is still starting is not waited for: it is ended by the launcher.
    """
    deadline = time.monotonic() + _PATIENCE
    answers = [f"{_KEY}/{rank}" for rank in range(1, world_size)]
    while not store.check(answers) and time.monotonic() < deadline:
        time.sleep(_POLL)
