"""What is trained in a comparison: every side builds exactly this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Optimizer

from benchmarks.data import Characters, Classes, Data, Numbers, PythonSamples
from pipeline.components.models.char_transformer import CharTransformer
from pipeline.components.models.convnet import ConvNet
from pipeline.components.models.mlp import MLP

MODELS: Mapping[str, type[nn.Module]] = {"mlp": MLP, "convnet": ConvNet, "char_transformer": CharTransformer}
MOMENTUM = 0.9


@dataclass(frozen=True)
class Workload:
    """A training job: the same model, data, loss, optimizer and batches on every side."""

    name: str
    about: str
    model: Mapping[str, Any]
    """The model's table: ``type`` names a built-in, the rest is its arguments."""
    data: Data
    batch_per_rank: int
    """Samples of one optimizer step."""
    window: int
    """Optimizer steps between two readings of the clock."""
    warm_steps: int
    """Steps before the clock starts; a multiple of the window, like ``steps``."""
    steps: int
    """Steps on the clock."""
    accumulation: int = 1
    """Forward passes of one optimizer step."""
    workers: int = 0
    """Processes per rank that read."""
    learning_rate: float = 0.01

    @property
    def microbatch(self) -> int:
        """Samples of one forward pass."""
        return self.batch_per_rank // self.accumulation

    def make_model(self) -> nn.Module:
        """With first parameters that are the same whoever calls."""
        torch.manual_seed(7)
        arguments = dict(self.model)
        return MODELS[arguments.pop("type")](**arguments)

    def make_optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=self.learning_rate, momentum=MOMENTUM)


_ALL = (
    Workload(
        name="mlp",
        about="MLP 784-256-10, 60,000 rows in memory, 64 per rank",
        model={"type": "mlp", "in_features": 784, "hidden": [256], "out_features": 10},
        data=Classes(60_000, (784,)),
        batch_per_rank=64,
        window=50,
        warm_steps=100,
        steps=500,
    ),
    Workload(
        name="linear",
        about="linear 8-1, 60,000 rows in memory, 32 per rank: overhead alone",
        model={"type": "mlp", "in_features": 8, "hidden": [], "out_features": 1},
        data=Numbers(60_000, 8),
        batch_per_rank=32,
        window=50,
        warm_steps=200,
        steps=1500,
    ),
    Workload(
        name="conv",
        about="conv net of three stages, 4,000 images 32x32 in memory, 32 per rank",
        model={"type": "convnet", "in_channels": 3, "channels": [16, 32, 64], "num_classes": 10},
        data=Classes(4_000, (3, 32, 32)),
        batch_per_rank=32,
        window=10,
        warm_steps=10,
        steps=60,
    ),
    Workload(
        name="char",
        about="character transformer of two blocks, width 64, context 64, 16 per rank in 4 passes",
        model={"type": "char_transformer", "vocab_size": 96, "context": 64, "width": 64, "depth": 2},
        data=Characters(8_000, 64, 96),
        batch_per_rank=16,
        window=10,
        warm_steps=10,
        steps=100,
        accumulation=4,
    ),
    Workload(
        name="samples",
        about="MLP 64-64-10, samples made by Python code one by one, 32 per rank, 2 workers per rank",
        model={"type": "mlp", "in_features": 64, "hidden": [64], "out_features": 10},
        data=PythonSamples(60_000, 64),
        batch_per_rank=32,
        window=50,
        warm_steps=100,
        steps=400,
        workers=2,
    ),
)

WORKLOADS = {workload.name: workload for workload in _ALL}
