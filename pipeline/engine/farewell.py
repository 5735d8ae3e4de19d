"""Rank 0's word that it leaves in good order: who was too busy to hear why must not take it for lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_KEY = "rank 0 has left"


class Farewell:
    """Kept in the launcher's store, which outlives the one that rank 0 serves.

    Args:
        store: a connection that nobody else waits on.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def say(self) -> None:
        """Raises: RuntimeError: if the launcher is gone."""
        self._store.set(_KEY, "yes")

    def was_said(self) -> bool:
        try:
            return bool(self._store.check([_KEY]))
        except RuntimeError:  # the launcher is gone too
            return False
