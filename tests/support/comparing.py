"""Two runs that have to be the same, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from runs_of import rows_of, state_of, weights_of


def assert_same_run(folder: Path, expected: Path) -> None:
    """The last checkpoints, their whole other state too, and every row but its time."""
    assert_same_weights(folder, expected)
    assert rows_of(folder) == rows_of(expected)
    assert_same_state(state_of(folder), state_of(expected))


def assert_same_weights(folder: Path, expected: Path) -> None:
    left, right = weights_of(folder), weights_of(expected)
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def assert_same_state(left: Any, right: Any, path: str = "state") -> None:
    assert type(left) is type(right), path
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right), path
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), path
        for key in left:
            assert_same_state(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), path
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            assert_same_state(one, other, f"{path}[{number}]")
    else:
        assert left == right, path
