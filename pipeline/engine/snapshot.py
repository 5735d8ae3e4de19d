"""A checkpoint's content at one step, copied, so that training can go on while it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pipeline.engine.safetensors_file import write_safetensors
from pipeline.runs.hashed_file import Writer

FORMAT = 1
MODEL_FILE = "model.safetensors"
STATE_FILE = "state.pt"


@dataclass(frozen=True)
class Snapshot:
    """Tensors and plain data on the CPU that nothing else refers to."""

    model: Mapping[str, Tensor]
    state: Mapping[str, Any]

    def files(self) -> dict[str, Writer]:
        """What writes each file of the checkpoint, by name."""
        return {
            MODEL_FILE: partial(write_safetensors, self.model),
            STATE_FILE: partial(torch.save, self.state),
        }
