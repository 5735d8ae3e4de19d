"""Components that raise on one rank in a place and a way that the environment names; a local file."""

from __future__ import annotations

import os
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler

from pipeline import Hook, Metric, Outcome, register


class TwoArguments(Exception):
    """Cannot be made anew from its message alone, as unpickling would."""

    def __init__(self, what, where):
        super().__init__(f"{what} broke in {where}")


class Unpicklable(Exception):
    """Holds what no process can send."""

    def __init__(self):
        super().__init__("held a lock")
        self.lock = threading.Lock()


class Unspeakable(Exception):
    """Has a message that cannot be had."""

    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


class Outside(BaseException):
    """Is no Exception, and none of the interpreter's own."""


class Slotted(Exception):
    """Lets nobody add a note."""

    def add_note(self, note):
        raise AttributeError("no notes")


ERRORS = {
    "value": lambda: ValueError("one value, broken"),
    "two": lambda: TwoArguments("the stem", "the middle"),
    "unpicklable": Unpicklable,
    "unspeakable": Unspeakable,
    "outside": lambda: Outside("not an Exception"),
    "slotted": lambda: Slotted("no place for notes"),
    "exit": lambda: SystemExit(0),
    "exit text": lambda: SystemExit("leaving with a word"),
    "interrupt": KeyboardInterrupt,
    "memory": MemoryError,
    "stop": lambda: StopIteration("no more"),
    "group": lambda: ExceptionGroup("several", [ValueError("one"), OSError(5, "two")]),
    "gloo": lambda: RuntimeError("gloo: Connection closed by peer, says a component"),
    "lines": lambda: ValueError("first line\nsecond line\n"),
}


def pitfall(place):
    """Raise, if this is the place and the rank; each process does it once."""
    if os.environ.get("TRAP_PLACE") != place or os.environ["RANK"] != os.environ["TRAP_RANK"]:
        return
    print(f"springing {place}", file=sys.stderr, flush=True)
    del os.environ["TRAP_PLACE"]
    if os.environ["TRAP_ERROR"] == "sleep":
        time.sleep(600)
    raise ERRORS[os.environ["TRAP_ERROR"]]()


pitfall("import")


@register("dataset", "trapped")
class Trapped:
    """Points, 16 by default; ``name`` tells the places of two of them apart."""

    def __init__(self, name: str, length: int = 16) -> None:
        pitfall(f"{name}.init")
        self.name = name
        self.length = length

    def __len__(self):
        pitfall(f"{self.name}.len")
        return self.length

    def set_epoch(self, epoch):
        pitfall(f"{self.name}.set_epoch")

    def __getitem__(self, index):
        if index >= 8:
            pitfall(f"{self.name}.read")
        return torch.full((8,), float(index)).sin(), index % 3

    def collate_fn(self, samples):
        pitfall(f"{self.name}.collate")
        return torch.utils.data.default_collate(samples)


@register("sampler", "trapped")
class TrappedSampler:
    """0, 1, 2, ..."""

    def __init__(self, dataset, *, seed: int) -> None:
        pitfall("sampler.init")
        self.samples_per_epoch = len(dataset)

    def indices(self, epoch, start, stop):
        pitfall("sampler.indices")
        return range(start, stop)


class Springing(torch.autograd.Function):
    """The identity, with a trap on the way back."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        pitfall("model.backward")
        return gradient


@register("model", "trapped")
class TrappedModel(nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        pitfall("model.init")
        self.layer = nn.Linear(8, 3)
        self.trained = False

    def state_dict(self, *args, **kwargs):
        if self.trained:  # else it is measured beforehand
            pitfall("model.state_dict")
        return super().state_dict(*args, **kwargs)

    def forward(self, inputs):
        self.trained = True
        pitfall("model.forward" if self.training else "model.evaluate")
        return Springing.apply(self.layer(inputs))


@register("objective", "trapped")
class TrappedObjective:
    """Cross entropy."""

    def __init__(self) -> None:
        pitfall("objective.init")

    def __call__(self, model, batch):
        logits = model(batch[0])
        pitfall("objective.call")
        return Outcome(F.cross_entropy(logits, batch[1], reduction="sum"), None, logits, batch[1])


@register("optimizer", "trapped")
class TrappedOptimizer(torch.optim.SGD):
    """SGD."""

    def __init__(self, params, lr: float = 0.1) -> None:
        pitfall("optimizer.init")
        super().__init__(params, lr=lr)

    def step(self, closure=None):
        if not self.param_groups[0]["params"][0].is_meta:  # else its state is measured beforehand
            pitfall("optimizer.step")
        return super().step(closure)

    def state_dict(self):
        pitfall("optimizer.state_dict")
        return super().state_dict()


@register("scheduler", "trapped")
class TrappedScheduler(LRScheduler):
    """Does nothing."""

    def __init__(self, optimizer) -> None:
        pitfall("scheduler.init")
        self.steps = -1
        super().__init__(optimizer)

    def get_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch=None):
        self.steps += 1
        if self.steps > 0:
            pitfall("scheduler.step")
        super().step(epoch)


@register("metric", "trapped")
class TrappedMetric(Metric):
    """Counts samples."""

    def __init__(self) -> None:
        super().__init__()
        pitfall("metric.init")
        self.add_state("total", torch.tensor(0), "sum")

    def update(self, outcome):
        pitfall("metric.update")
        self.total = self.total + len(outcome.targets)

    def compute(self):
        pitfall("metric.compute")
        return self.total


@register("hook", "trapped")
class TrappedHook(Hook):
    """Has a trap in every method."""

    ranks = "all"

    def __init__(self) -> None:
        pitfall("hook.init")

    def on_run_start(self, run):
        pitfall("hook.on_run_start")

    def on_epoch_start(self, run):
        pitfall("hook.on_epoch_start")

    def on_step_end(self, run):
        pitfall("hook.on_step_end")

    def on_evaluate_end(self, run):
        pitfall("hook.on_evaluate_end")

    def on_epoch_end(self, run):
        pitfall("hook.on_epoch_end")

    def on_run_end(self, run):
        pitfall("hook.on_run_end")

    def on_exception(self, run, error):
        if os.environ.get("TRAP_AGAIN"):
            raise ERRORS[os.environ["TRAP_AGAIN"]]()

    def state_dict(self):
        pitfall("hook.state_dict")
        return {"calls": 1}

    def load_state_dict(self, state):
        pitfall("hook.load_state_dict")
