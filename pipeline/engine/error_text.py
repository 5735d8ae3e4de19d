"""The text of any exception: a foreign class may have a ``__str__`` that fails itself."""

from __future__ import annotations


def text_of(error: BaseException) -> str:
    """The error's message, or what became of asking for it."""
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001  (whatever a foreign __str__ does)
        return f"(its message cannot be shown: {type(another).__name__})"
