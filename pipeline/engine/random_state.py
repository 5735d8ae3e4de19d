"""The random states of this process: seeded by name, captured as plain data, restored exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pipeline.api.seeds import derive_seed


def seed_all(seed: int, *purpose: str | int) -> None:
    """Seed torch (all devices), numpy and random from one stream's seed."""
    derived = derive_seed(seed, *purpose)
    torch.manual_seed(derived)
    np.random.seed(derived & 0xFFFFFFFF)
    random.seed(derived)


def capture() -> dict[str, Any]:
    """All states as tensors, numbers and text, loadable with ``weights_only=True``."""
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    version, internal, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [
            str(name),
            torch.from_numpy(np.asarray(keys).astype(np.int64)),
            position,
            has_gauss,
            cached,
        ],
        "python": [version, torch.tensor(internal, dtype=torch.int64), gauss],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: dict[str, Any]) -> None:
    """Put back what ``capture`` gave."""
    torch.set_rng_state(state["torch"])
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def preserved(*, on_device: bool = True) -> Iterator[None]:
    """Let other code draw without moving this process's streams.

    Args:
        on_device: CUDA's too; a forked worker must not touch it.
    """
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    cuda_state = torch.cuda.get_rng_state() if on_device and torch.cuda.is_available() else None
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        random.setstate(python_state)
        if cuda_state is not None:
            torch.cuda.set_rng_state(cuda_state)
