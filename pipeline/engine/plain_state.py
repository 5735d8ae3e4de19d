"""State that a checkpoint can hold: tensors, numbers, text, and lists and dicts of these.

Anything else would have to be unpickled by running code, which ``weights_only=True`` refuses; so it
is refused when it is saved, by the name of who gave it.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from typing import Any

from torch import Tensor, nn

from pipeline.errors import CheckpointError

_SCALARS = (bool, int, float, str, bytes, type(None))


def plain_copy(value: Any, owner: str, path: str = "") -> Any:
    """A copy of a state on the CPU, which nothing that goes on with the original changes.

    Raises:
        CheckpointError: naming the owner, the key and the type of what cannot be saved.
    """
    if type(value) in _SCALARS:
        return value
    if type(value) in (Tensor, nn.Parameter):
        return value.detach().to("cpu", copy=True)
    if type(value) in (list, tuple, set):
        return type(value)(plain_copy(item, owner, f"{path}[{number}]") for number, item in enumerate(value))
    if type(value) in (dict, OrderedDict, defaultdict):
        copied = copy.copy(value)  # a dict of the same kind, with the same order of keys
        for key, item in value.items():
            if type(key) not in (bool, int, float, str):
                raise CheckpointError(
                    f"the state of {owner} has a key of type {type(key).__name__} at {path or 'the top'}; "
                    "expected text or a number"
                )
            copied[key] = plain_copy(item, owner, f"{path}.{key}" if path else str(key))
        return copied
    raise CheckpointError(
        f"the state of {owner} holds a {type(value).__module__}.{type(value).__qualname__} at "
        f"{path or 'the top'}, which no safe loader reads; expected tensors, numbers, text, "
        "and lists and dicts of these"
    )
