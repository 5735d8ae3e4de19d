"""Whether all ranks have built the same model and data, found out before the first step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import torch
from torch import nn

from pipeline.engine.agreement import Facts, differing, table
from pipeline.engine.data import Data
from pipeline.engine.group import Group
from pipeline.errors import RunError


def require_same_build(module: nn.Module, data: Data, group: Group, on_phase: Callable[[str], None]) -> None:
    """Find out before the first step whether all ranks have built the same; all ranks call it together.

    Args:
        module: the step module, whose parameters and buffers are compared by name, shape and type.
        on_phase: told whose fault a difference is.

    Raises:
        RunError: with a table of who has what; on all ranks.
    """
    facts = _facts(module, data)
    digest = hashlib.sha256(json.dumps(facts).encode()).digest()
    every = group.all_gather(torch.frombuffer(bytearray(digest), dtype=torch.uint8))
    if all(torch.equal(one, every[0]) for one in every):
        return
    by_rank: list[Facts] = group.all_gather_objects(facts)
    on_phase(differing(by_rank)[0].partition(":")[0])
    raise RunError(f"the ranks have built different things:\n{table(by_rank)}")


def _facts(module: nn.Module, data: Data) -> dict[str, str]:
    facts = {f"{name}: length": str(length) for name, length in data.lengths.items()}
    for name, parameter in module.named_parameters():
        kind = str(parameter.dtype).removeprefix("torch.") + ("" if parameter.requires_grad else ", frozen")
        facts[_named(name)] = f"{tuple(parameter.shape)} {kind}"
    for name, buffer in module.named_buffers():
        facts[_named(name)] = f"{tuple(buffer.shape)} {str(buffer.dtype).removeprefix('torch.')}"
    return facts


def _named(name: str) -> str:
    """``model: layer.weight`` for the step module's ``model.layer.weight``."""
    component, _, own = name.partition(".")
    return f"{component}: {own}"
