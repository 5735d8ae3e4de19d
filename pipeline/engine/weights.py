"""Model weights as safetensors: the bare model's names, tied parameters under each of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pipeline.api.settings import WeightsSettings
from pipeline.errors import CheckpointError, ComponentError


def to_bytes(model: nn.Module) -> bytes:
    """The model's state as one safetensors file that plain torch loads strictly."""
    # A clone for each name: the format refuses shared memory, and a strict load wants every name.
    tensors = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()
    }
    return safetensors.torch.save(tensors)


def from_bytes(data: bytes, origin: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU."""
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise CheckpointError(f"{origin} is no sound safetensors file: {error}") from error


def load_strictly(model: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Load all of a model's state, in place.

    Raises:
        CheckpointError: listing missing, unexpected and differently shaped names.
    """
    faults = _misfits(model.state_dict(), tensors)
    if faults:
        raise CheckpointError(f"{origin} does not fit the model:\n  " + "\n  ".join(faults))
    model.load_state_dict(dict(tensors))


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
    own = model.state_dict()
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
        some = ", ".join(list(names)[:8])
        raise ComponentError(f"{key}: {glob!r} matches no name; the names are {some}, ...")
    return found


def _misfits(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> list[str]:
    faults = [f"missing: {name}" for name in own if name not in given]
    faults += [f"unexpected: {name}" for name in given if name not in own]
    faults += [
        f"shape: {name} is {tuple(given[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in given and own[name].shape != given[name].shape
    ]
    return faults
