"""A stand-in for the run that hooks are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

CONFIG = """\
seed = 1
[optimizer]
lr = 0.5
betas = [0.9, 0.99]
"""


@dataclass
class FakeRun:
    """The run view (api.run.Run) of a training that the test plays by hand."""

    folder: Path
    model: nn.Module
    optimizer: torch.optim.Optimizer
    name: str = "fake"
    epoch: int = 0
    step: int = 0
    samples_seen: int = 0
    steps_per_epoch: int = 10
    total_steps: int = 40
    world: Any = field(
        default_factory=lambda: SimpleNamespace(rank=0, local_rank=0, world_size=1, local_world_size=1)
    )
    metrics: dict[str, float] = field(default_factory=dict)
    metrics_steps: dict[str, int] = field(default_factory=dict)
    logged: list[tuple[int, str, Any]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def advance(self, **metrics: float) -> None:
        """One optimizer step of 32 samples; ``metrics`` are measured at it, with __ for / in names."""
        self.step += 1
        self.samples_seen += 32
        for key, value in metrics.items():
            self.metrics[key.replace("__", "/")] = value
            self.metrics_steps[key.replace("__", "/")] = self.step

    def log(self, name: str, value: Any) -> None:
        self.logged.append((self.step, name, value))

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)

    def checkpoint(self, reason: str) -> None:
        raise AssertionError("no built-in hook asks for checkpoints")


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., FakeRun]:
    def make(model: nn.Module | None = None, **fields: Any) -> FakeRun:
        model = model if model is not None else nn.Linear(3, 2)
        (tmp_path / "config.toml").write_text(CONFIG)
        (tmp_path / "run.json").write_text(json.dumps({"parent": None}))
        return FakeRun(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.5), **fields)

    return make
