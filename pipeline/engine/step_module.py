"""The pair (model, objective) as one module: what DDP wraps, and what runs bare at world size 1."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pipeline.api.outcome import Outcome
from pipeline.api.settings import DistributedSettings, TrainSettings
from pipeline.engine.world import World
from pipeline.errors import ComponentError

Objective = Callable[[nn.Module, Any], Outcome]

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class StepModule(nn.Module):
    """Calls ``objective(bare_model, batch)``, so an objective may use any method of the model."""

    def __init__(self, model: nn.Module, objective: Objective, device: torch.device, precision: str) -> None:
        super().__init__()
        self.model = model
        self.objective = objective  # registered as a submodule where it is one
        self._device = device
        self._dtype = _AUTOCAST.get(precision)

    def forward(self, batch: Any) -> tuple[Tensor, Tensor | float | None]:
        """The loss sum and the weight of a microbatch; of None, a zero connected to every parameter."""
        if batch is None:
            return sum(_nothings(self), start=_zero(self)), None
        outcome = self.outcome(batch)
        return outcome.loss, outcome.weight

    def outcome(self, batch: Any) -> Outcome:
        """All that the objective says of a batch; no DDP, no collective."""
        with self._autocast():
            return _checked(self.objective(self.model, batch))

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._dtype is None:
            return nullcontext()
        return torch.autocast(self._device.type, self._dtype)


def _checked(outcome: Any) -> Outcome:
    """Refuse what an objective must not give.

    Raises:
        ComponentError: if it is no Outcome, or its loss is no scalar tensor.
    """
    if not isinstance(outcome, Outcome):
        got = f"a {type(outcome).__name__}"
    elif not isinstance(outcome.loss, Tensor):
        got = f"an Outcome whose loss is a {type(outcome.loss).__name__}"
    elif outcome.loss.dim() != 0:
        got = f"an Outcome whose loss has the shape {tuple(outcome.loss.shape)}"
    else:
        return outcome
    raise ComponentError(
        f"the objective gave {got}; expected pipeline.Outcome(loss, weight, predictions, targets), "
        "its loss a scalar tensor: the sum over the samples"
    )


def _nothings(module: nn.Module) -> Iterator[Tensor]:
    """A sum over no element of every parameter: exact zeros as gradients, even where one is not finite.

    Sparse where the module that holds the parameter gives sparse gradients, since ranks must agree on that.
    """
    sparse = {
        child.weight
        for child in module.modules()
        if isinstance(child, nn.Embedding | nn.EmbeddingBag) and child.sparse
    }
    for parameter in filter(attrgetter("requires_grad"), module.parameters()):
        if parameter in sparse:
            index = torch.empty(0, dtype=torch.int64, device=parameter.device)
            yield nn.functional.embedding(index, parameter, sparse=True).sum()
        else:
            yield parameter.flatten()[:0].sum()


def _zero(module: nn.Module) -> Tensor:
    parameter = next(module.parameters())
    return parameter.new_zeros(())


def wrap(
    step_module: StepModule, world: World, train: TrainSettings, distributed: DistributedSettings
) -> nn.Module:
    """The module that the loop calls: compiled if asked, and in DDP where there are several ranks."""
    if train.compile:
        step_module.compile()
    if world.world_size == 1:
        return step_module
    return DistributedDataParallel(
        step_module,
        device_ids=[world.device.index] if world.device.type == "cuda" else None,
        bucket_cap_mb=distributed.bucket_cap_mb,
        find_unused_parameters=distributed.find_unused_parameters,
        static_graph=distributed.static_graph,
        gradient_as_bucket_view=distributed.gradient_as_bucket_view,
        **_no_buffer_sync(),
    )


def _no_buffer_sync() -> dict[str, Any]:
    """Keep DDP from a collective for buffers in every forward; engine.buffers does it where it matters."""
    new_name = "forward_sync_buffers"  # the old one is deprecated where this is known
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    return {new_name if new_name in known else "broadcast_buffers": False}


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch with its tensors on the device; tuples, lists and mappings keep their form."""
    if device.type == "cpu":
        return batch
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    return batch.to(device) if hasattr(batch, "to") else batch
