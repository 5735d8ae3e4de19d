"""Telling the epoch to everything that has ``set_epoch``, also where something is wrapped around it."""

from __future__ import annotations

from typing import Any


def tell_epoch(outer: Any, epoch: int, *, inside: tuple[str, ...]) -> None:
    """Call ``set_epoch`` of ``outer``, or where it has none, of what it is wrapped around; once each.

    Args:
        inside: attributes that hold what is wrapped, or lists of it, as ``dataset`` of torch's Subset.
    """
    _tell(outer, epoch, inside, set())


def _tell(part: Any, epoch: int, inside: tuple[str, ...], told: set[int]) -> None:
    if part is None or id(part) in told:
        return
    told.add(id(part))
    if callable(getattr(part, "set_epoch", None)):
        part.set_epoch(epoch)
        return
    for name in inside:
        held = vars(part).get(name) if hasattr(part, "__dict__") else None
        for inner in held if isinstance(held, list | tuple) else (held,):
            _tell(inner, epoch, inside, told)
