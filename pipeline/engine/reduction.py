"""The fused collective: any number of states in one all-gather of packed bytes.

Every rank reduces in rank order, so that all of them hold the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from pipeline.api.metric import Reduction, State
from pipeline.engine.group import Group
from pipeline.errors import ComponentError


def reduce_states(states: Sequence[State], group: Group, names: Sequence[str]) -> list[Tensor]:
    """Join the states of all ranks; the results are on the CPU and equal on every rank.

    One collective for all states together; a second one only where some grow ("cat").

    Args:
        states: in the same order, with the same shapes and types, on every rank ("cat" may differ in
            its first dimension).
        names: what to call each state in an error.

    Raises:
        ComponentError: if a state declares no known reduction and there are several ranks.
    """
    if group.world_size == 1:
        return [state.value.detach().cpu() for state in states]
    require_reductions(states, names, group.world_size)
    fixed = [_length(state.value) if state.reduce == "cat" else state.value.detach() for state in states]
    gathered = _gather(fixed, [_shapes(fixed)] * group.world_size, group)
    results = [
        _in_rank_order(by_rank, state.reduce)
        for by_rank, state in zip(zip(*gathered, strict=True), states, strict=True)
    ]
    growing = [i for i, state in enumerate(states) if state.reduce == "cat"]
    if growing:
        mine = [states[i].value.detach().contiguous() for i in growing]
        shapes = [[(int(rank[i]), *states[i].value.shape[1:]) for i in growing] for rank in gathered]
        for i, by_rank in zip(growing, zip(*_gather(mine, shapes, group), strict=True), strict=True):
            results[i] = torch.cat(by_rank)
    return results


def require_reductions(states: Sequence[State], names: Sequence[str], world_size: int) -> None:
    """Hold that every state says how it is joined, where there are ranks to join.

    Raises:
        ComponentError: naming the first that does not.
    """
    for state, name in zip(states, names, strict=True):
        if world_size > 1 and state.reduce not in get_args(Reduction):
            declared = "no reduction" if state.reduce is None else f"the reduction {state.reduce!r}"
            raise ComponentError(
                f"{name} declares {declared}, so it cannot be computed over {world_size} ranks; "
                "declare sum, max, min or cat, or run with one process"
            )


def _length(value: Tensor) -> Tensor:
    return torch.tensor(len(value), dtype=torch.int64, device=value.device)


def _shapes(tensors: Sequence[Tensor]) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in tensors]


def _gather(
    tensors: Sequence[Tensor], shapes_by_rank: Sequence[Sequence[tuple[int, ...]]], group: Group
) -> list[list[Tensor]]:
    """Every rank's tensors, by rank; their shapes on each rank are known."""
    device = tensors[0].device
    packed = torch.cat([tensor.to(device).contiguous().reshape(-1).view(torch.uint8) for tensor in tensors])
    sizes = [tensor.element_size() for tensor in tensors]
    longest = max(
        sum(size * _numel(shape) for size, shape in zip(sizes, shapes, strict=True))
        for shapes in shapes_by_rank
    )
    padded = packed.new_zeros(longest)
    padded[: packed.numel()] = packed
    return [
        _unpack(data, tensors, shapes)
        for data, shapes in zip(group.all_gather(padded), shapes_by_rank, strict=True)
    ]


def _unpack(data: Tensor, like: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Split packed bytes into tensors of the types of ``like`` and the given shapes."""
    tensors, offset = [], 0
    for tensor, shape in zip(like, shapes, strict=True):
        length = tensor.element_size() * _numel(shape)
        # A copy, since a view of another type must start at a multiple of its size.
        tensors.append(data[offset : offset + length].clone().view(tensor.dtype).reshape(shape))
        offset += length
    return tensors


def _numel(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


def _in_rank_order(by_rank: Sequence[Tensor], how: str | None) -> Tensor:
    total = by_rank[0]
    for value in by_rank[1:]:
        if how == "max":
            total = torch.maximum(total, value)
        elif how == "min":
            total = torch.minimum(total, value)
        else:
            total = total + value
    return total
