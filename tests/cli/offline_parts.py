"""Components for the tests of evaluate and predict; a local file, as a user would have one."""

from __future__ import annotations

import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from pipeline import Hook, Metric, Outcome, register


def refuse_offline(what: str) -> None:
    if "OFFLINE" in os.environ:
        raise RuntimeError(f"{what} was built, but nobody needs it")


class SlowlyTold:
    """Standard error on a slow terminal: a rank needs a while to tell of its failure."""

    def __init__(self, file) -> None:
        self._file, self._waited = file, False

    def write(self, text: str) -> int:
        if not self._waited:
            self._waited = True
            time.sleep(1)
        return self._file.write(text)

    def __getattr__(self, name: str):
        return getattr(self._file, name)


@register("dataset", "noisy")
class Noisy:
    """Inputs (8,) with noise drawn for each sample and epoch; if it is for training, for nothing else."""

    def __init__(self, length: int, for_training: bool = False, bad: int = -1) -> None:
        if for_training:
            refuse_offline("the training dataset")
        generator = torch.Generator().manual_seed(length)
        self.inputs = torch.randn(length, 8, generator=generator)
        self.labels = torch.randint(3, (length,), generator=generator)
        self.bad = bad

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int):
        if index == self.bad:
            sys.stderr = SlowlyTold(sys.stderr)
            raise IndexError(f"sample {index} is broken")
        return self.inputs[index] + 0.1 * torch.randn(8), self.labels[index]


@register("model", "restless")
class Restless(nn.Module):
    """Batch norm, and noise that is drawn in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 3)

    def forward(self, inputs):
        return self.second(torch.tanh(self.norm(self.first(inputs)))) + 0.1 * torch.randn(len(inputs), 3)


@register("objective", "tempered")
class Tempered(nn.Module):
    """Cross entropy at a temperature that is learnt too."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, model, batch):
        inputs, targets = batch
        logits = self.scale * model(inputs)
        return Outcome(F.cross_entropy(logits, targets, reduction="sum"), None, logits, targets)


@register("objective", "shaped")
class Shaped:
    """Cross entropy whose predictions have the form that a test asks for."""

    def __init__(self, form: str) -> None:
        self.form = form

    def __call__(self, model, batch):
        inputs, targets = batch
        logits = model(inputs)
        predictions = {
            "none": None,
            "list": logits.tolist(),
            "flat": logits.flatten(),
            "ragged": logits[:, : 2 + (len(inputs) == 8)],
        }[self.form]
        return Outcome(F.cross_entropy(logits, targets, reduction="sum"), None, predictions, targets)


@register("metric", "samples")
class Samples(Metric):
    """How many samples were seen."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("count", torch.tensor(0), "sum")

    def update(self, outcome):
        self.count += len(outcome.targets)

    def compute(self):
        return self.count


@register("optimizer", "training_only")
def training_only(params, lr: float = 0.1):
    refuse_offline("the optimizer")
    return torch.optim.SGD(params, lr)


@register("hook", "training_only")
class TrainingOnly(Hook):
    def __init__(self) -> None:
        refuse_offline("a hook")
