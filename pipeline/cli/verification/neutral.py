"""Without what makes training depend on ranks by intention: dropout at 0, running batch statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.engine.fetch import Reading


def neutralise(module: nn.Module) -> list[str]:
    """Switch it off, and name the modules where something was."""
    named = []
    for name, child in module.named_modules():
        if _stop_dropping(child):
            named.append(f"{name} ({type(child).__name__})")
        if isinstance(child, nn.modules.batchnorm._BatchNorm) and child.track_running_stats:
            child.register_forward_pre_hook(_on_running_statistics)
            named.append(f"{name} ({type(child).__name__})")
    return named


def _stop_dropping(module: nn.Module) -> bool:
    """Every probability of dropout among a module's own numbers; true if one was above 0."""
    dropped = False
    names = ["p"] if isinstance(module, nn.modules.dropout._DropoutNd) else []
    names += [name for name in vars(module) if "dropout" in name or "drop_prob" in name]
    for name in names:
        value = getattr(module, name)
        if isinstance(value, float) and 0 < value <= 1:
            setattr(module, name, 0.0)
            dropped = True
    return dropped


def _on_running_statistics(module: nn.Module, arguments: Any) -> None:
    module.training = False


def take_double(model: nn.Module, readings: Iterable[Reading]) -> None:
    """Let batches, and whatever else goes into the model, be float64 where they are float32."""
    model.register_forward_pre_hook(_to_double, with_kwargs=True)
    for reading in readings:
        reading.collate = partial(_collated_in_double, reading.collate)


def _to_double(module: nn.Module, arguments: Any, named: Any) -> Any:
    return _double(arguments), _double(named)


def _collated_in_double(collate: Callable[[Any], Any], samples: Any) -> Any:
    return _double(collate(samples))


def _double(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(torch.float64) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _double(child) for key, child in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_double, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_double, value))
    return value
