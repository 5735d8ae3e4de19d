"""Values made small: digests that are equal only for equal bits, and sketches that keep distances."""

from __future__ import annotations

import hashlib
import random
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_DEPTH = 12
_SKETCH = 1024


def digest(value: Any) -> str:
    """Equal for equal bits: of tensors, arrays, numbers, texts, and containers and objects of these."""
    state = hashlib.blake2b(digest_size=12)
    _feed(state, value, _DEPTH)
    return state.hexdigest()


def _feed(state: Any, value: Any, depth: int) -> None:
    state.update(type(value).__name__.encode())
    if isinstance(value, Tensor):
        state.update(f"{value.dtype}{tuple(value.shape)}".encode())
        state.update(_bytes(value))
    elif isinstance(value, np.ndarray | np.generic):
        state.update(f"{value.dtype}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes() if value.dtype != object else repr(value).encode())
    elif isinstance(value, float):
        state.update(struct.pack("d", value))
    elif isinstance(value, str | bytes | int | bool | complex) or value is None:
        state.update(repr(value).encode())
    elif depth == 0:
        return
    elif isinstance(value, Mapping):
        for key, child in value.items():
            _feed(state, key, depth - 1)
            _feed(state, child, depth - 1)
    elif isinstance(value, list | tuple | deque):
        for child in value:
            _feed(state, child, depth - 1)
    elif isinstance(value, set | frozenset):
        state.update("".join(sorted(digest(child) for child in value)).encode())
    else:
        _feed(state, generator_state(value) or getattr(value, "__dict__", None), depth - 1)


def generator_state(value: Any) -> Any:
    """The state of a random generator; None for anything else."""
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state()
    if isinstance(value, random.Random):
        return value.getstate()
    return None


def _bytes(tensor: Tensor) -> bytes:
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    flat = plain.cpu().contiguous().reshape(-1)
    return flat.resolve_conj().resolve_neg().view(torch.uint8).numpy().tobytes()


def rows_of(value: Any) -> Tensor:
    """Of the first floating-point tensor in a value the sum and the norm of every row, float64 (rows, 2).

    Of none, or one without dimensions, (0, 2).
    """
    tensor = _first_tensor(value)
    if tensor is None or tensor.dim() == 0 or tensor.layout is not torch.strided:
        return torch.zeros(0, 2, dtype=torch.float64)
    rows = (
        tensor.detach().to("cpu", torch.float64).flatten(1) if tensor.dim() > 1 else tensor.detach()[:, None]
    )
    return torch.stack([rows.sum(1), rows.norm(dim=1)], dim=1).to("cpu", torch.float64)


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    children = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    )
    return next((found for child in children if (found := _first_tensor(child)) is not None), None)


def sketch(tensor: Tensor) -> Tensor:
    """At most 1024 numbers, float64: the tensor's own, or for a larger one sums with random signs.

    It is linear, so the norm of the difference of two sketches is, within a few percent, that of the
    two tensors.
    """
    dense = tensor.detach()
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    flat = dense.to("cpu", torch.float64).reshape(-1)
    if flat.numel() <= _SKETCH:
        return flat.clone()
    generator = torch.Generator().manual_seed(flat.numel())
    signs = torch.randint(0, 2, flat.shape, generator=generator, dtype=torch.int8)
    signed = flat * (signs * 2 - 1)
    padded = torch.nn.functional.pad(signed, (0, -flat.numel() % _SKETCH))
    return padded.view(-1, _SKETCH).sum(0)
