"""A state that is a list of tensors, in a form that ranks can join without knowing its type.

A rank that saw no sample has an empty list and cannot tell dtype or shape. So the list goes as bytes,
concatenated over the ranks, beside a layout that the ranks which know it tell the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pipeline.api.metric import State

_DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
_MAX_DIMS = 8


def pack(name: str, tensors: Sequence[Tensor], device: torch.device) -> dict[str, State]:
    """The two states of a list of tensors (n, ...) that agree in all but n.

    The layout is dtype, number of trailing dimensions, and these; all 0 where nothing is known.
    """
    layout = torch.zeros(2 + _MAX_DIMS, dtype=torch.int64)
    data = torch.empty(0, dtype=torch.uint8, device=device)
    if tensors:
        joined = torch.cat([tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors])
        trailing = joined.shape[1:]
        layout[: 2 + len(trailing)] = torch.tensor(
            [_DTYPES.index(joined.dtype) + 1, len(trailing), *trailing]
        )
        data = joined.contiguous().reshape(-1).view(torch.uint8)
    return {f"{name}.layout": State(layout.to(device), "max"), name: State(data, "cat")}


def unpack(name: str, values: Mapping[str, Tensor]) -> list[Tensor]:
    """The list, of one tensor or none, from the joined states."""
    code, dims, *sizes = values[f"{name}.layout"].tolist()
    if not code:
        return []
    return [values[name].view(_DTYPES[code - 1]).reshape(-1, *sizes[:dims])]
