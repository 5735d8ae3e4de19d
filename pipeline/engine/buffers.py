"""Buffers (batch-norm statistics) made equal on all ranks where one value must stand for all.

Ranks train with statistics of their own; for an evaluation or a checkpoint they take one common
value and go on with their own, so that evaluating more or less often changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from pipeline.api.metric import State
from pipeline.engine.group import Group
from pipeline.engine.reduction import reduce_states


@contextmanager
def equal_buffers(module: nn.Module, group: Group, rule: Literal["rank0", "mean"]) -> Iterator[list[Tensor]]:
    """Inside, every rank's buffers have one common value; afterwards its own again.

    Yields:
        The rank's own values, in the order of ``module.buffers()``, those that no state_dict has included.
    """
    buffers = list(module.buffers())
    own = [buffer.detach().clone() for buffer in buffers]
    if group.world_size == 1 or not buffers:
        yield own
        return
    with torch.no_grad():
        for buffer, value in zip(buffers, _common(buffers, group, rule), strict=True):
            buffer.copy_(value)
    try:
        yield own
    finally:
        load_buffers(buffers, own)


def share_buffers(module: nn.Module, group: Group) -> None:
    """Start every rank with rank 0's buffers, which older versions' DDP does only for parameters."""
    buffers = list(module.buffers())
    if buffers and group.world_size > 1:
        load_buffers(buffers, _common(buffers, group, "rank0"))


def load_buffers(buffers: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into buffers, in place."""
    with torch.no_grad():
        for buffer, value in zip(buffers, values, strict=True):
            buffer.copy_(value)


def _common(buffers: Sequence[Tensor], group: Group, rule: str) -> list[Tensor]:
    """Rank 0's values, or the mean of fractions (counts and flags stay rank 0's)."""
    if rule == "rank0":
        values: list[Tensor] = group.broadcast([buffer.cpu() for buffer in buffers])
        return values
    names = ["buffer"] * len(buffers)
    stacked = [State(buffer.detach()[None], "cat") for buffer in buffers]
    by_rank = reduce_states(stacked, group, names)
    return [
        values.double().mean(0).to(values.dtype) if values.is_floating_point() else values[0]
        for values in by_rank
    ]
