"""Whether a dataset can be sent to workers that start from nothing, found out before training begins.

A forked worker has everything by birth. A spawned one gets the dataset pickled, which torch does when
the first samples are asked for: for an evaluation that may be after an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
from torch import Tensor

from pipeline.engine.error_text import text_of
from pipeline.errors import ComponentError

_SENT_WITH_IT = "collate_fn"  # as an attribute of the class it is not in the dataset's own state


def require_sendable(dataset: Any, part: object, start_method: str) -> None:
    """Pickle a dataset as for a new worker, but for what its tensors and arrays hold.

    Raises:
        ComponentError: naming the attribute that cannot be pickled.
    """
    collate = getattr(dataset, _SENT_WITH_IT, None)
    for place, value in ((type(dataset).__qualname__, dataset), (_SENT_WITH_IT, collate)):
        error = _error_of(value)
        if error is not None:
            raise ComponentError(
                f"{part} cannot be sent to a worker process: {_culprit(value, place, set())} "
                f"({type(error).__qualname__}: {text_of(error)}); keep functions and classes at the top of a "
                f'module, or set loader.start_method = "fork" in place of "{start_method}"'
            ) from error


def _culprit(value: Any, place: str, seen: set[int]) -> str:
    """The innermost part that cannot be pickled, as an expression."""
    seen.add(id(value))
    for name, part in _parts(value):
        if id(part) not in seen and _error_of(part) is not None:
            return _culprit(part, place + name, seen)
    return place


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    else:
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _error_of(value: Any) -> Exception | None:
    """What pickling raises."""
    # Locks and queues are pickled for a new process alone.
    context.set_spawning_popen(_NoProcess())  # type: ignore[arg-type]
    try:
        _Probe(_Nowhere()).dump(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, the start of the worker would meet it too
        return error
    finally:
        context.set_spawning_popen(None)
    return None


class _Probe(ForkingPickler):
    """Pickles nothing that is surely sendable and may be large."""

    def persistent_id(self, value: Any) -> str | None:
        large = (isinstance(value, Tensor) and value.is_leaf) or (
            isinstance(value, np.ndarray) and not value.dtype.hasobject
        )
        return "large" if large else None


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)


class _NoProcess:
    """In the place of the process that would be started; none gets a file descriptor."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor
