"""How many bytes a checkpoint will have, known before the first step."""

from __future__ import annotations

import copy
from collections import defaultdict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def checkpoint_size(model: nn.Module, optimizer: Optimizer) -> int:
    """Bytes of the weights, under each of their names, and of the optimizer's state, at least."""
    weights = sum(value.nbytes for value in model.state_dict().values() if isinstance(value, Tensor))
    return weights + (_tensor_bytes(optimizer) or _tensor_bytes(_stepped_without_data(optimizer)))


def _tensor_bytes(optimizer: Optimizer) -> int:
    states = optimizer.state.values()
    return sum(value.nbytes for state in states for value in state.values() if isinstance(value, Tensor))


def _stepped_without_data(optimizer: Optimizer) -> Optimizer:
    """The optimizer over parameters of the same shapes without memory, after a step if it can take one."""
    twin = copy.copy(optimizer)
    twin.state = defaultdict(dict)
    twin.param_groups = [
        {**group, "params": [_without_data(parameter) for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    try:
        type(optimizer).step(twin)
    except Exception:  # noqa: BLE001  (a foreign optimizer may need values: then less is known beforehand)
        twin.state.clear()
    return twin


def _without_data(parameter: Tensor) -> nn.Parameter:
    twin = nn.Parameter(torch.empty_like(parameter, device="meta"))
    twin.grad = torch.empty_like(parameter, device="meta")
    return twin
