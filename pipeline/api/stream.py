"""Datasets without indices: what one has to offer so that ranks and workers can share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stream(Protocol):
    """An iterable dataset that can say how it splits.

    The engine asks for ``world_size * max(1, loader.workers)`` shards, reads each of them in one
    place, from its start to its end, once an epoch. It does not ask torch's ``get_worker_info``,
    and neither must the dataset.
    """

    def shard(self, index: int, count: int) -> Iterable[Any]:
        """The samples of share ``index`` of ``count``, in the same order each time.

        All shares of a ``count`` together are the whole dataset, and no two have a sample in common;
        they may differ in length, and be empty. A function of the arguments, and of the epoch where
        the dataset has ``set_epoch``; called by keyword.

        What it returns may have ``state_dict()`` and ``load_state_dict(state)``, the latter called before
        it is iterated: then a resumed run goes on without reading what was read before. The state is
        plain data (tensors, numbers, text, lists, dicts) and is asked for after every microbatch.
        """
        ...
