"""A model that keeps statistics, and data whose statistics differ from rank to rank; a local file."""

from __future__ import annotations

import json
import os

import torch
from torch import nn

from pipeline import Hook, register


@register("dataset", "apart")
class Apart:
    """Inputs (1,) around 0 at even indices and around 10 at odd ones, and a target (1,).

    Of two ranks, dealt in this order, one has a mean of 0 and the other of 10.
    """

    def __init__(self, length: int) -> None:
        generator = torch.Generator().manual_seed(length)
        self.inputs = torch.randn(length, 1, generator=generator)
        self.inputs[1::2] += 10

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int):
        return self.inputs[index], self.inputs[index] / 10


@register("model", "one_norm")
class OneNorm(nn.Module):
    """One batch norm, whose statistics begin with another value on every rank, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1)
        self.norm.running_mean.fill_(1.0 + int(os.environ.get("RANK", "0")))
        self.last = nn.Linear(1, 1)

    def forward(self, inputs):
        return self.last(self.norm(inputs))


@register("hook", "statistics")
class Statistics(Hook):
    """Writes this rank's own running mean at every event to statistics-RANK.json; the last of each counts."""

    ranks = "all"

    def __init__(self) -> None:
        self.means: dict[str, float] = {}

    def note(self, run, event):
        self.means[event] = run.model.norm.running_mean.item()
        (run.folder / f"statistics-{run.world.rank}.json").write_text(json.dumps(self.means))

    def on_run_start(self, run):
        self.note(run, "run_start")

    def on_step_end(self, run):
        self.note(run, "step_end")

    def on_evaluate_end(self, run):
        self.note(run, "evaluate_end")


@register("hook", "first_weights")
class FirstWeights(Hook):
    """Writes every parameter as it is before the first step to run.folder/first-RANK.json."""

    ranks = "all"

    def on_run_start(self, run):
        values = {name: parameter.tolist() for name, parameter in run.model.named_parameters()}
        (run.folder / f"first-{run.world.rank}.json").write_text(json.dumps(values))


@register("hook", "length")
class Length(Hook):
    """Logs how long the run is to be; a value of a step is in the row of the next."""

    def on_step_end(self, run):
        if run.step != run.total_steps:
            run.log("length", float(run.total_steps))
