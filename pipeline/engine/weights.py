"""Model weights as safetensors: the bare model's names, tied parameters under each of theirs.

What ``get_extra_state`` gives is no weight: it is kept beside them as plain data, unless it is a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pipeline.api.settings import WeightsSettings
from pipeline.engine.pickled import foreign_objects
from pipeline.engine.plain_state import plain_copy
from pipeline.engine.safetensors_file import require_storable
from pipeline.errors import CheckpointError, ComponentError

_EXTRA = "_extra_state"  # torch's own suffix; a tensor of it may have any shape


def copied(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of the model's state by name, contiguous on the CPU; nothing changes them any more.

    Tied parameters come under each of their names, and are one copy.

    Raises:
        CheckpointError: naming what safetensors cannot hold.
    """
    copies: dict[tuple[object, ...], Tensor] = {}
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, Tensor):
            require_storable(name, tensor)
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if place not in copies:
                copies[place] = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            tensors[name] = copies[place]
    return tensors


def copied_extra(model: nn.Module) -> dict[str, Any]:
    """What the model's ``get_extra_state`` methods give, by name; tensors are among the weights.

    Raises:
        CheckpointError: naming what is not plain data.
    """
    extra = {name: value for name, value in model.state_dict().items() if not isinstance(value, Tensor)}
    copy: dict[str, Any] = plain_copy(extra, "model")
    return copy


def from_bytes(data: bytes, origin: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU."""
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        names = foreign_objects(data)
        holds = f"; it is a pickle that holds {', '.join(names)}, and was not loaded" if names else ""
        raise CheckpointError(f"{origin} is no sound safetensors file: {error}{holds}") from error


def load_strictly(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    origin: str,
    *,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Load all of a model's weights, in place.

    Args:
        extra: what ``copied_extra`` gave; None: the model's extra state, if it has one, stays as it is.

    Raises:
        CheckpointError: listing missing, unexpected and differently shaped names.
    """
    state = model.state_dict()
    faults = _misfits({name: value for name, value in state.items() if isinstance(value, Tensor)}, tensors)
    if extra is not None:
        own = {name for name, value in state.items() if not isinstance(value, Tensor)}
        faults += [f"{'unexpected' if name in extra else 'missing'}: {name}" for name in own ^ extra.keys()]
    if faults:
        raise CheckpointError(f"{origin} does not fit the model:\n  " + "\n  ".join(faults))
    model.load_state_dict({**tensors, **(extra or {})}, strict=False)


def start_from(model: nn.Module, weights: WeightsSettings) -> list[str]:
    """Load ``model.weights``: strictly, or what its globs pick.

    Returns:
        The model's names that were left as they were.

    Raises:
        CheckpointError: if the file cannot be read or does not fit.
        ComponentError: if a glob picks nothing.
    """
    path = Path(weights.path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"model.weights: {path} cannot be read: {error.strerror}") from error
    tensors = from_bytes(data, str(path))
    if not weights.include:
        load_strictly(model, tensors, f"model.weights: {path}")
        return []
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    picked = {name for glob in weights.include for name in matching(glob, own, "model.weights")}
    chosen = {name: tensors[name] for name in picked if name in tensors}
    faults = _misfits({name: own[name] for name in picked}, chosen)
    if faults:
        raise CheckpointError(f"model.weights: {path} does not fit:\n  " + "\n  ".join(faults))
    model.load_state_dict(chosen, strict=False)
    return [name for name in own if name not in picked]


def freeze(model: nn.Module, globs: Sequence[str]) -> None:
    """Take the parameters that match out of training.

    Raises:
        ComponentError: if a glob matches none.
    """
    parameters = dict(model.named_parameters())
    for glob in globs:
        for name in matching(glob, parameters, "model.freeze"):
            parameters[name].requires_grad_(False)


def matching(glob: str, names: Mapping[str, object], key: str) -> list[str]:
    """The names that a glob matches.

    Raises:
        ComponentError: if it matches none.
    """
    found = [name for name in names if fnmatchcase(name, glob)]
    if not found:
        some, more = ", ".join(list(names)[:8]), len(names) - 8
        rest = f" and {more} more" if more > 0 else ""
        raise ComponentError(f"{key}: {glob!r} matches no name; the names are {some}{rest}")
    return found


def _misfits(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> list[str]:
    faults = [f"missing: {name}" for name in own if name not in given]
    faults += [f"unexpected: {name}" for name in given if name not in own]
    faults += [
        f"shape: {name} is {tuple(given[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in given and own[name].shape != given[name].shape and not name.endswith(_EXTRA)
    ]
    return faults
