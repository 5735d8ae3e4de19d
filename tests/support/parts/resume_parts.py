"""Components whose every read and draw is written down, step by step; a local file."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pipeline import Hook, Metric, Outcome, register

NOTED: dict[str, list[Any]] = defaultdict(list)
"""What this rank's training batches were, and what was drawn for them, since the recorder's last row."""


@register("dataset", "drawing")
class Drawing:
    """Inputs (4,) that are drawn from the global generators, a label, the index, and the draws."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        drawn = torch.tensor([torch.rand(()).item(), float(np.random.rand()), random.random()])
        return torch.full((4,), index / self.length) + drawn.sum(), index % 3, index, drawn


@register("model", "noted_net")
class NotedNet(nn.Module):
    """Two layers with dropout between, whose masks are noted."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.dropout = nn.Dropout(0.5)
        self.second = nn.Linear(width, 3)

    def forward(self, inputs):
        hidden = self.dropout(torch.sigmoid(self.first(inputs)))
        if self.training:
            NOTED["masks"] += (hidden != 0).int().tolist()
        return self.second(hidden)


@register("objective", "noting")
class Noting:
    """Cross entropy that notes the indices of every training batch, and what was drawn for them."""

    def __call__(self, model, batch):
        inputs, labels, indices, drawn = batch
        if model.training:
            NOTED["indices"] += indices.tolist()
            NOTED["draws"] += drawn.tolist()
        logits = model(inputs)
        loss = F.cross_entropy(logits.float(), labels, reduction="sum")
        return Outcome(loss, None, logits, labels)


@register("hook", "recorder")
class Recorder(Hook):
    """After every step appends a row to record-RANK.jsonl, and keeps count of its calls in its state."""

    ranks = "all"

    def __init__(self) -> None:
        self.calls = 0

    def on_run_start(self, run):
        NOTED.clear()  # the batch of a resumed run's warm-up

    def on_step_end(self, run):
        self.calls += 1
        row = {"epoch": run.epoch, "step": run.step, "rank": run.world.rank, "calls": self.calls}
        rates = [group["lr"] for group in run.optimizer.param_groups]
        with (run.folder / f"record-{run.world.rank}.jsonl").open("a") as file:
            file.write(json.dumps(row | {"rates": rates} | NOTED) + "\n")
        NOTED.clear()

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


STEPS_DONE = [0]
"""Steps of the run, as the hook ``steps_told`` knows them."""


@register("hook", "steps_told")
class StepsTold(Hook):
    """Tells the metric below where the run stands."""

    ranks = "all"

    def on_run_start(self, run):
        STEPS_DONE[0] = run.step

    def on_step_end(self, run):
        STEPS_DONE[0] = run.step


@register("metric", "scripted_by_step")
class ScriptedByStep(Metric):
    """Gives one value of a list for every step, counted over all attempts; to be evaluated every step."""

    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.values = values
        self.add_state("told", torch.zeros((), dtype=torch.float64), "max")

    def update(self, outcome):
        self.told = torch.tensor(self.values[STEPS_DONE[0]], dtype=torch.float64)

    def compute(self):
        return self.told
