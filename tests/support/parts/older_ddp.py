"""Importing this makes DDP start as older versions of torch do: buffers stay as each rank has them."""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import distributed

_sync = distributed._sync_module_states


def _sync_parameters(*arguments: Any, **options: Any) -> None:
    _sync(*arguments, **options | {"broadcast_buffers": False})


distributed._sync_module_states = _sync_parameters
