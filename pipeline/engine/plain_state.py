"""State that a checkpoint can hold: tensors, numbers, text, and lists and dicts of these.

Anything else would have to be unpickled by running code, which ``weights_only=True`` refuses; so it
is refused when it is saved, by the name of who gave it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

from torch import Tensor

from pipeline.errors import CheckpointError


def require_plain(value: Any, owner: str, path: str = "") -> None:
    """Check a state before it is written.

    Raises:
        CheckpointError: naming the owner, the key and the type of what cannot be saved.
    """
    if value is None or type(value) in (bool, int, float, str, bytes) or isinstance(value, Tensor):
        return
    if type(value) in (list, tuple, set):
        for number, item in enumerate(value):
            require_plain(item, owner, f"{path}[{number}]")
        return
    if type(value) in (dict, OrderedDict, defaultdict):
        for key, item in value.items():
            if type(key) not in (bool, int, float, str):
                raise CheckpointError(
                    f"the state of {owner} has a key of type {type(key).__name__} at {path or 'the top'}; "
                    "expected text or a number"
                )
            require_plain(item, owner, f"{path}.{key}" if path else str(key))
        return
    raise CheckpointError(
        f"the state of {owner} holds a {type(value).__module__}.{type(value).__qualname__} at "
        f"{path or 'the top'}, which no safe loader reads; expected tensors, numbers, text, "
        "and lists and dicts of these"
    )
