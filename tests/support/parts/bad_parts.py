"""Components that break their contracts, each in one way; a local file, as a user would have one."""

from __future__ import annotations

import os
from collections import deque
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from pipeline import Hook, Metric, Outcome, register


class TwoArguments(Exception):
    """Cannot be made anew from its message alone, as unpickling would."""

    def __init__(self, what, where):
        super().__init__(f"{what} broke in {where}")


class Unspeakable(Exception):
    """Has a message that cannot be had."""

    def __str__(self):
        raise RuntimeError("no words")


@register("model", "raising")
class Raising(nn.Module):
    """Its constructor raises something odd."""

    def __init__(self, how: Literal["two", "unspeakable", "exit", "interrupt"]) -> None:
        super().__init__()
        raise {
            "two": TwoArguments("the stem", "the model"),
            "unspeakable": Unspeakable(),
            "exit": SystemExit(0),
            "interrupt": KeyboardInterrupt(),
        }[how]


@register("model", "wrong_shape")
class WrongShape(nn.Module):
    """Forgets a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, inputs):
        return self.layer(inputs)[:-1]


@register("model", "partly_used")
class PartlyUsed(nn.Module):
    """Has a layer that it never uses, or from its third forward pass on only in every other one."""

    def __init__(self, sometimes: bool = False) -> None:
        super().__init__()
        self.used = nn.Linear(8, 3)
        self.spare = nn.Linear(8, 3)
        self.sometimes = sometimes
        self.passes = 0

    def forward(self, inputs):
        self.passes += self.training
        if self.sometimes and (self.passes <= 2 or self.passes % 2):
            return self.used(inputs) + self.spare(inputs)
        return self.used(inputs)


@register("model", "skipping")
class Skipping(nn.Module):
    """Has a layer that rank 1 leaves out in every other pass, from its ``first`` one on."""

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        self.used = nn.Linear(8, 3)
        self.spare = nn.Linear(8, 3)
        self.first = first
        self.passes = 0

    def forward(self, inputs):
        self.passes += self.training
        skips = (
            os.environ["RANK"] == "1" and self.passes >= self.first and (self.passes - self.first) % 2 == 0
        )
        return self.used(inputs) if skips else self.used(inputs) + self.spare(inputs)


@register("model", "untrainable")
class Untrainable(nn.Module):
    """Has no parameters."""

    def forward(self, inputs):
        return inputs[:, :3]


@register("objective", "no_outcome")
class NoOutcome:
    """Gives something else than an Outcome, or one whose loss is no scalar tensor."""

    def __init__(self, gives: Literal["tensor", "none", "vector", "float"]) -> None:
        self.gives = gives

    def __call__(self, model, batch):
        losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
        return {
            "tensor": losses.sum(),
            "none": None,
            "vector": Outcome(losses),
            "float": Outcome(losses.sum().item()),
        }[self.gives]


@register("objective", "nan")
class Nan:
    """A loss that is NaN from the first step on."""

    def __call__(self, model, batch):
        logits = model(batch[0])
        loss = F.cross_entropy(logits, batch[1], reduction="sum")
        return Outcome(loss * float("nan"), None, logits, batch[1])


@register("metric", "mean_of_means")
class MeanOfMeans(Metric):
    """Declares a reduction that does not exist."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("mean", torch.tensor(0.0), "mean")  # type: ignore[arg-type]

    def update(self, outcome):
        self.mean = outcome.loss.detach().float()

    def compute(self):
        return self.mean


@register("hook", "queue")
class Queue(Hook):
    """Its state is no plain data."""

    def state_dict(self):
        return {"last": {"losses": deque([1.0])}}


@register("hook", "together")
class Together(Hook):
    """Raises on every rank at once, as a wrong setting does."""

    ranks = "all"

    def on_step_end(self, run):
        raise ValueError(f"broken on rank {os.environ.get('RANK')}")


@register("dataset", "stream")
class Stream(torch.utils.data.IterableDataset):
    """Has no samples."""

    def __iter__(self):
        return iter(())

    def shard(self, index, count):
        return ()
