"""Writing the safetensors format front to back, straight from the tensors' own memory.

The library's writers join all tensors into one more copy first, and hold the interpreter lock while
they do, which would stop the training that goes on meanwhile. Reading is left to the library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO

import torch
from torch import Tensor

from pipeline.errors import CheckpointError

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_ALIGNMENT = 8


def require_storable(name: str, tensor: Tensor) -> None:
    """Raises: CheckpointError: if the format has no word for the tensor's type or layout."""
    if tensor.dtype not in _NAMES or tensor.layout is not torch.strided:
        raise CheckpointError(
            f"the model's {name} is a {tensor.layout} tensor of {tensor.dtype}, which safetensors cannot "
            "hold; keep it out of the state_dict (persistent=False), or in get_extra_state"
        )


def write_safetensors(tensors: Mapping[str, Tensor], file: BinaryIO) -> None:
    """Write contiguous tensors of the CPU under their names; some may share memory.

    The machine is taken to be little-endian, as the format is.
    """
    # Large elements first, so that every tensor begins at a multiple of its own element's size.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header: dict[str, object] = {}
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for _, tensor in ordered:
        file.write(tensor.flatten().view(torch.uint8).numpy().data)
