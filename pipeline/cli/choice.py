"""Rank 0's decision told to the other ranks through the launcher's store, before any process group."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline.cli.output import status_of
from pipeline.errors import RunError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_KEY = "choice"
_REFUSED = "refused "
_PATIENCE = 3.0  # seconds
_POLL = 0.02  # seconds; a blocking wait in the store would keep signals from being handled


class RefusedError(RunError):
    """Rank 0 has refused to begin, and says why itself."""

    def __init__(self, status: int) -> None:
        super().__init__("rank 0 has refused to begin; its own message says why")
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


def await_choice(store: Store, rank: int) -> str:
    """Rank 0's decision, on another rank.

    Raises:
        RefusedError: if rank 0 cannot begin.
    """
    while not store.check([_KEY]):
        time.sleep(_POLL)
    text: str = store.get(_KEY).decode()
    if text.startswith(_REFUSED):
        store.set(f"{_KEY}/{rank}", "seen")
        raise RefusedError(int(text.removeprefix(_REFUSED)))
    return text


def _await_answers(store: Store, world_size: int) -> None:
    """Let the others see the refusal before this rank leaves, and the launcher ends them or the store goes.

    One that is still starting is not waited for: it is ended by the launcher.
    """
    deadline = time.monotonic() + _PATIENCE
    answers = [f"{_KEY}/{rank}" for rank in range(1, world_size)]
    while not store.check(answers) and time.monotonic() < deadline:
        time.sleep(_POLL)
