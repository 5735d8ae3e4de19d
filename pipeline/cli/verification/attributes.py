"""What an object keeps in its attributes: where its state hides if no state_dict has it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.cli.verification.digest import digest, generator_state

_MODULES_OWN = frozenset(vars(nn.Module()))
_MAX_SHOWN = 40
_DEPTH = 4

Attributes = dict[str, str]
"""By path, as ``stem.calls``: the value as text, short; equal for equal values."""


def optimizers_own() -> frozenset[str]:
    """The attributes that every optimizer has, those that torch's schedulers give it included."""
    return frozenset(vars(_AnOptimizer([torch.zeros(1)], {}))) | {"step", "_opt_called"}


class _AnOptimizer(torch.optim.Optimizer):
    """No optimizer of torch's: making one changes its class."""


class Without:
    """Stands in for an object, without some of its attributes."""

    def __init__(self, value: Any, names: Collection[str]) -> None:
        self.__dict__.update({name: child for name, child in vars(value).items() if name not in names})


def attributes_of(value: Any) -> Attributes:
    """Numbers, texts, tensors, containers of these and generators, of an object and of its parts.

    Of a module all but parameters and buffers, which its state_dict has.
    """
    return dict(_walk(value, "", _DEPTH, set()))


def _walk(value: Any, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, str]]:
    if id(value) in seen or depth == 0:
        return
    seen.add(id(value))
    is_module = isinstance(value, nn.Module)
    own = dict(getattr(value, "__dict__", {}))
    if is_module:
        children = {name: child for name, child in value.named_children() if child is not None}
        own = {name: one for name, one in own.items() if name not in _MODULES_OWN} | children
    for name, child in own.items():
        at = f"{path}.{name}" if path else name
        if isinstance(child, nn.Module):
            yield from _walk(child, at, depth if is_module else depth - 1, seen)
        elif _is_plain(child):
            yield at, _text(child)
        elif (state := generator_state(child)) is not None:
            yield at, f"a generator in state {digest(state)}"
        elif hasattr(child, "__dict__") and not (
            isinstance(child, type) or callable(child) or _is_tool(child)
        ):
            yield from _walk(child, at, depth - 1, seen)


def _is_tool(value: Any) -> bool:
    """Whether an object is torch's or the standard library's: what it counts for itself is nobody's state."""
    package = type(value).__module__.partition(".")[0]
    return package == "torch" or package in sys.stdlib_module_names


def _is_plain(value: Any) -> bool:
    if (
        isinstance(value, bool | int | float | str | bytes | Tensor | np.ndarray | np.generic)
        or value is None
    ):
        return True
    if isinstance(value, Mapping):
        return all(_is_plain(key) and _is_plain(child) for key, child in value.items())
    return isinstance(value, list | tuple | set | frozenset | deque) and all(map(_is_plain, value))


def _text(value: Any) -> str:
    if isinstance(value, bool | int | float | str) or value is None:
        shown = repr(value)
        if len(shown) <= _MAX_SHOWN:
            return shown
    size = f" of {len(value)}" if hasattr(value, "__len__") and getattr(value, "shape", None) != () else ""
    return f"a {type(value).__name__}{size} ({digest(value)[:8]})"
