"""What is trained in a comparison: both sides build exactly this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import TensorDataset


@dataclass(frozen=True)
class Workload:
    """A training job: the same model, rows, loss, optimizer and batches on either side."""

    name: str
    about: str
    model: Mapping[str, Any]
    """The model's table: ``type`` names a built-in, the rest is its arguments."""
    rows: int
    shape: tuple[int, ...]
    """Of one input."""
    classes: int | None
    """Classes to tell apart, with cross entropy; None: one number to fit, with squared error."""
    batch_per_rank: int
    learning_rate: float
    warm_steps: int
    """Steps before the clock starts."""
    steps: int
    """Steps on the clock."""

    @property
    def total_steps(self) -> int:
        return self.warm_steps + self.steps


MLP = Workload(
    name="mlp",
    about="MLP 784-256-10, 60,000 rows, 64 per rank",
    model={"type": "mlp", "in_features": 784, "hidden": [256], "out_features": 10},
    rows=60_000,
    shape=(784,),
    classes=10,
    batch_per_rank=64,
    learning_rate=0.01,
    warm_steps=100,
    steps=1500,
)
LINEAR = Workload(
    name="linear",
    about="linear 8-1, 32 per rank: overhead alone",
    model={"type": "mlp", "in_features": 8, "hidden": [], "out_features": 1},
    rows=60_000,
    shape=(8,),
    classes=None,
    batch_per_rank=32,
    learning_rate=0.01,
    warm_steps=200,
    steps=4000,
)
CONV = Workload(
    name="conv",
    about="conv net of three stages, 32x32 images, 32 per rank",
    model={"type": "convnet", "in_channels": 3, "channels": [16, 32, 64], "num_classes": 10},
    rows=4_000,
    shape=(3, 32, 32),
    classes=10,
    batch_per_rank=32,
    learning_rate=0.01,
    warm_steps=10,
    steps=200,
)

WORKLOADS = {workload.name: workload for workload in (MLP, LINEAR, CONV)}


def make_rows(workload: Workload) -> TensorDataset:
    """Inputs (N, *shape) and targets, classes (N,) or numbers (N, 1): noise, the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(workload.rows, *workload.shape, generator=generator)
    if workload.classes is None:
        return TensorDataset(inputs, torch.randn(workload.rows, 1, generator=generator))
    return TensorDataset(inputs, torch.randint(workload.classes, (workload.rows,), generator=generator))


def scaled(workload: Workload, scale: float) -> Workload:
    """The workload with fewer steps on the clock, or more."""
    return replace(workload, steps=max(100, round(workload.steps * scale)))
