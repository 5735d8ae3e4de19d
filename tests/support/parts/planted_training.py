"""Models, objectives, optimizers and schedulers that each break one promise."""

from __future__ import annotations

import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline import Outcome, register

WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


@register("model", "counting")
class Counting(Net):
    """What it does depends on a count that no buffer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += self.training
        return super().forward(inputs) * (1 + 0.01 * self.calls)


@register("model", "drawing")
class Drawing(Net):
    """Draws from a generator that nobody seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng()

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs * float(self.generator.random()))


@register("model", "with_a_spare_head")
class WithASpareHead(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(4, 3)


@register("model", "scaled_by_ranks")
class ScaledByRanks(Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * WORLD_SIZE


@register("model", "dropping")
class Dropping(Net):
    """Has dropout and batch norm, which no number of ranks leaves as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.dropout(self.norm(inputs)))


@register("model", "noisy_forward")
class NoisyForward(Net):
    """Adds noise from torch's global generator, as a diffusion model does."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs + 0.1 * torch.randn_like(inputs))


@register("model", "single_only")
class SingleOnly(Net):
    """Takes no other numbers than float32."""

    def forward(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs.float(), self.layer.weight, self.layer.bias)


@register("objective", "mean_loss")
class MeanLoss:
    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Outcome:
        logits = model(batch[0])
        return Outcome(F.cross_entropy(logits, batch[1]), predictions=logits, targets=batch[1])


@register("objective", "contrastive")
class Contrastive:
    """Compares the samples of a batch with one another."""

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Outcome:
        embedded = model(batch[0])
        loss = F.cross_entropy(embedded @ embedded.T, torch.arange(len(embedded)), reduction="sum")
        return Outcome(loss, predictions=embedded, targets=batch[1])


@register("objective", "annealed")
class Annealed:
    """Weighs the loss by a count that nothing saves."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Outcome:
        self.calls += model.training
        logits = model(batch[0])
        loss = F.cross_entropy(logits, batch[1], reduction="sum") / (1 + self.calls)
        return Outcome(loss, predictions=logits, targets=batch[1])


@register("optimizer", "timed")
class Timed(torch.optim.SGD):
    """Takes a step as large as the time it has taken."""

    def __init__(self, params) -> None:
        super().__init__(params, lr=0.1)
        torch.optim.SGD([torch.zeros(1)])  # from now on, torch calls the hooks of SGD's own step as well

    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(time.perf_counter() % 1)
        super().step(closure)


@register("optimizer", "lookahead")
class Lookahead(torch.optim.SGD):
    """Keeps slow weights where its state_dict does not have them."""

    def __init__(self, params) -> None:
        super().__init__(params, lr=0.1)
        self.slow = None

    def step(self, closure=None) -> None:
        super().step(closure)
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        with torch.no_grad():
            self.slow = self.slow or [parameter.clone() for parameter in parameters]
            for parameter, slow in zip(parameters, self.slow, strict=True):
                slow.lerp_(parameter, 0.5)
                parameter.copy_(slow)


@register("optimizer", "scaled_lr")
class ScaledLr(torch.optim.SGD):
    """Takes larger steps with more ranks, as scripts do whose batch grows with them."""

    def __init__(self, params) -> None:
        super().__init__(params, lr=0.1 * WORLD_SIZE)


@register("optimizer", "scaled_steps")
class ScaledSteps(torch.optim.SGD):
    """Likewise, in secret."""

    def __init__(self, params) -> None:
        super().__init__(params, lr=0.1)

    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(WORLD_SIZE)
        super().step(closure)


@register("scheduler", "counting_steps")
class CountingSteps(torch.optim.lr_scheduler.LRScheduler):
    """Counts steps where its state_dict does not have them."""

    steps = 0

    def get_lr(self) -> list[float]:
        CountingSteps.steps += 1
        return [0.1 / CountingSteps.steps for _ in self.base_lrs]


@register("scheduler", "scaled_by_size")
class ScaledBySize(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self) -> list[float]:
        return [0.1 * WORLD_SIZE for _ in self.base_lrs]
