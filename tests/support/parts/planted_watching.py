"""Metrics and hooks that each break one promise, and some that look so and break none."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import torch
from torch import Tensor

from pipeline import Hook, Metric, Outcome, Run, register


class Sum(Metric):
    """The loss of an evaluation, as a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.add_state("total", torch.tensor(0.0, dtype=torch.float64), "sum")

    def update(self, outcome: Outcome) -> None:
        self.total += outcome.loss.double()

    def compute(self) -> Tensor:
        return self.total


@register("metric", "undeclared")
class Undeclared(Sum):
    """Divides by a count that it does not declare."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0

    def update(self, outcome: Outcome) -> None:
        super().update(outcome)
        self.batches += 1

    def compute(self) -> Tensor:
        return self.total / max(1, self.batches)


@register("metric", "stateless")
class Stateless(Metric):
    """Counts where the engine does not see it."""

    def __init__(self) -> None:
        super().__init__()
        self.samples = 0

    def update(self, outcome: Outcome) -> None:
        self.samples += len(outcome.predictions)

    def compute(self) -> float:
        return float(self.samples)


@register("metric", "unreduced")
class Unreduced(Sum):
    """Does not say how its state is joined."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.add_state("total", torch.tensor(0.0, dtype=torch.float64), None)


@register("metric", "mean_of_means")
class MeanOfMeans(Sum):
    """Keeps the mean of what it has seen, and has the ranks' means added up."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = self.add_state("seen", torch.tensor(0), "max")

    def update(self, outcome: Outcome) -> None:
        self.seen += 1
        self.total += (outcome.loss / len(outcome.predictions) - self.total) / self.seen


@register("metric", "never_reset")
class NeverReset(Sum):
    def reset(self, device: torch.device) -> None:
        pass


@register("hook", "counting_hook")
class CountingHook(Hook):
    """Keeps a count that its state_dict does not have."""

    def __init__(self) -> None:
        self.steps = 0

    def on_step_end(self, run: Run) -> None:
        self.steps += 1


@register("hook", "decaying")
class Decaying(Hook):
    """Changes the parameters by a count that it forgets."""

    ranks = "all"

    def __init__(self) -> None:
        self.factor = 1.0

    def on_step_end(self, run: Run) -> None:
        self.factor *= 0.99
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.mul_(self.factor)


@register("hook", "clamping_on_main")
class ClampingOnMain(Hook):
    """Changes the parameters of rank 0 alone."""

    def on_step_end(self, run: Run) -> None:
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.clamp_(-0.1, 0.1)


@register("hook", "halving_on_main")
class HalvingOnMain(Hook):
    """Changes the learning rate of rank 0 alone."""

    def on_step_end(self, run: Run) -> None:
        for group in run.optimizer.param_groups:
            group["lr"] *= 0.5


@register("hook", "kicking")
class Kicking(Hook):
    """Moves the parameters by what nobody seeds."""

    ranks = "all"

    def on_step_end(self, run: Run) -> None:
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.add_(random.SystemRandom().random())


@register("hook", "forgetful_on_load")
class ForgetfulOnLoad(Hook):
    """Cannot take back what it gave."""

    def state_dict(self) -> dict[str, int]:
        return {"steps": 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise KeyError("count")


@register("hook", "remembering")
class Remembering(CountingHook):
    """A count, saved."""

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]


@register("hook", "lazy")
class Lazy(Hook):
    """Makes what it needs when it first needs it."""

    def __init__(self) -> None:
        self.parameters = None

    def on_step_end(self, run: Run) -> None:
        if self.parameters is None:
            self.parameters = sum(parameter.numel() for parameter in run.model.parameters())


@register("hook", "timing")
class Timing(Hook):
    """Measures, and remembers when it began."""

    measured = frozenset({"seconds"})

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.steps = 0

    def on_step_end(self, run: Run) -> None:
        self.steps += 1
        run.log("seconds", (time.monotonic() - self.began) / self.steps)


@register("hook", "endless")
class Endless(Hook):
    """Says that it has been called, and never comes back."""

    ranks = "all"

    def __init__(self, file: Path) -> None:
        self.file = file

    def on_step_end(self, run: Run) -> None:
        self.file.touch()
        threading.Event().wait()


@register("hook", "vanishing")
class Vanishing(Hook):
    """Ends the process without a word."""

    def on_step_end(self, run: Run) -> None:
        os._exit(7)
