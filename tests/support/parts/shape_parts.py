"""Components that a check by shapes tells apart: those that fail, that need data, that mix samples."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline import Outcome, register


@register("dataset", "slow_to_build")
class SlowToBuild:
    def __init__(self) -> None:
        time.sleep(60)


@register("dataset", "never_built")
class NeverBuilt:
    """Declares its shapes, and fails where it is built."""

    def __init__(self, width: int = 4) -> None:
        raise AssertionError("the dataset was built")

    @staticmethod
    def declared_batch(size: int, width: int = 4) -> tuple[int, tuple[Tensor, Tensor]]:
        inputs = torch.empty(size, width, device="meta")
        return 1000, (inputs, torch.empty(size, dtype=torch.int64, device="meta"))


@register("model", "branching")
class Branching(nn.Linear):
    """Looks at its input's values."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.sum() > 0:
            return super().forward(inputs)
        return super().forward(-inputs)


@register("model", "with_a_spare_head")
class WithASpareHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.spare = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)


@register("model", "mixing")
class Mixing(nn.Module):
    """Lets samples see one another, or draws, in the way it is told."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(4)
        self.how = how

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = inputs + 0 * self.body.weight.sum()
        if self.how == "batch_norm":
            inputs = self.norm(inputs)
        elif self.how == "mean":
            inputs = inputs - inputs.mean(0)
        elif self.how == "pairs":
            inputs = torch.softmax(inputs @ inputs.T, -1) @ inputs
        elif self.how == "noise":
            inputs = inputs + torch.randn_like(inputs)
        return self.body(inputs)


@register("model", "cannot_be_built")
def cannot_be_built(width: int = 3) -> nn.Module:
    raise ValueError(f"width must be even, got {width}")


@register("model", "names")
class Names(nn.Linear):
    """Its outputs have no gradient."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).argmax(-1).float()


@register("objective", "squares")
def squares():
    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Outcome:
        return Outcome(model(batch[0]).square().sum())

    return objective


@register("objective", "contrast")
def contrast():
    """Every sample against every other, as contrastive losses do."""

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Outcome:
        features = F.normalize(model(batch[0]))
        return Outcome((features @ features.T).logsumexp(-1).sum())

    return objective
