"""No collective in code that runs on some ranks only: the others would wait for it, or take it for theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch.distributed as dist

from pipeline.errors import ComponentError

_COLLECTIVES = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "scatter",
)
"""Methods of a process group that all of its ranks must call; torch.distributed's functions all lead here."""


class Gate:
    """Lets collectives of torch.distributed pass, except while it is shut.

    DDP's own pass always: they do not come through Python.
    """

    def __init__(self) -> None:
        self._shut_for: str | None = None
        names = [name for name in _COLLECTIVES if hasattr(dist.ProcessGroup, name)]  # torch's versions differ
        places: list[tuple[Any, str]] = [(dist.ProcessGroup, name) for name in names]
        places.append((dist, "new_group"))  # which waits for all ranks in the store
        self._originals = [(owner, name, getattr(owner, name)) for owner, name in places]
        for owner, name, original in self._originals:
            setattr(owner, name, self._guarded(name, original))

    @contextmanager
    def shut(self, who: str) -> Iterator[None]:
        """Inside, every collective raises ComponentError, naming ``who`` has called it."""
        self._shut_for = who
        try:
            yield
        finally:
            self._shut_for = None

    def remove(self) -> None:
        """Put torch's own methods back."""
        for owner, name, original in self._originals:
            setattr(owner, name, original)

    def _guarded(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def collective(*arguments: Any, **options: Any) -> Any:
            if self._shut_for is not None:
                raise ComponentError(
                    f"{self._shut_for} has called a collective ({name.strip('_')}), but does not run on all "
                    "ranks, so the others would wait for each other for ever; let it run everywhere "
                    '(ranks = "all"), or do without'
                )
            return original(*arguments, **options)

        return collective
