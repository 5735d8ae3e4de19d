"""Inputs and targets from tensor files, memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset


class Tensors(Dataset[tuple[Tensor, Tensor]]):
    """Row i of one tensor file with row i of another: (inputs, targets) pairs.

    The files are mapped into memory, not read: a batch costs its own rows, and all processes of a
    machine share the pages. Both may be one .safetensors file under two keys.

    Args:
        inputs: a .npy or .safetensors file of shape (N, ...).
        targets: likewise, with the same N.
        inputs_key: the tensor's name in a .safetensors file; default: the only one it has.
        targets_key: likewise, of the targets.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is of another kind, has no such key or no first dimension, or the
            lengths differ.
    """

    def __init__(
        self,
        inputs: Path,
        targets: Path,
        inputs_key: str | None = None,
        targets_key: str | None = None,
    ) -> None:
        self._arguments = (inputs, targets, inputs_key, targets_key)
        self._inputs = _open(inputs, inputs_key, "inputs")
        self._targets = _open(targets, targets_key, "targets")
        if len(self._inputs) != len(self._targets):
            raise ValueError(
                f"inputs and targets must have equal lengths; {inputs} has {len(self._inputs)} rows "
                f"and {targets} has {len(self._targets)}"
            )

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batch, already collated: the files' rows (N, ...), in their own dtypes."""
        return _rows(self._inputs, indices), _rows(self._targets, indices)

    @staticmethod
    def collate_fn(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return batch  # __getitems__ has collated it

    def __reduce__(self) -> tuple[Any, ...]:
        """A spawned worker maps the files anew instead of receiving their content."""
        return type(self), self._arguments


def _open(path: Path, key: str | None, argument: str) -> Tensor | NDArray[Any]:
    """The tensor in ``path``, mapped."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; set the dataset's {argument}")
    if path.suffix == ".npy":
        mapped: Tensor | NDArray[Any] = np.load(path, mmap_mode="r")
    elif path.suffix == ".safetensors":
        mapped = _open_safetensors(path, key, argument)
    else:
        raise ValueError(f"expected {argument} to be a .npy or .safetensors file, got {path}")
    if mapped.ndim == 0:
        raise ValueError(f"expected {argument} of shape (N, ...), got a single number in {path}")
    return mapped


def _open_safetensors(path: Path, key: str | None, argument: str) -> Tensor:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            keys = sorted(file.keys())
            if key is None and len(keys) == 1:
                key = keys[0]
            if key not in keys:
                raise ValueError(f"{path} holds {keys}, got {argument}_key = {key!r}; name one of them")
            tensor: Tensor = file.get_tensor(key)  # on the CPU a view of the mapped file
            return tensor
    except SafetensorError as error:
        raise ValueError(f"{path} is no sound .safetensors file: {error}") from error


def _rows(source: Tensor | NDArray[Any], indices: Sequence[int]) -> Tensor:
    """A copy of the rows at ``indices``."""
    if isinstance(source, Tensor):
        return source[torch.as_tensor(indices, dtype=torch.int64)]
    return torch.from_numpy(source[np.asarray(indices, dtype=np.int64)])
