"""Components that the distributed tests name in their configs; a local file, as a user would have one."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pipeline import Hook, Metric, Outcome, register


@register("dataset", "points")
class Points:
    """Inputs (features,) and a label, float64 if asked, the same in every process."""

    def __init__(self, length: int, features: int = 8, classes: int = 3, double: bool = False) -> None:
        generator = torch.Generator().manual_seed(length)
        self.inputs = torch.randn(length, features, generator=generator)
        self.labels = torch.randint(classes, (length,), generator=generator)
        if double:
            self.inputs = self.inputs.double()

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int):
        return self.inputs[index], self.labels[index]


@register("dataset", "slow_points")
class SlowPoints(Points):
    """Takes a while for every sample."""

    def __init__(self, length: int, seconds: float) -> None:
        super().__init__(length)
        self.seconds = seconds

    def __getitem__(self, index: int):
        time.sleep(self.seconds)
        return super().__getitem__(index)


@register("dataset", "recorded")
class Recorded(Points):
    """Appends every index it is asked for, with the epoch, to FOLDER/rank-R.jsonl."""

    def __init__(self, length: int, folder: Path, draws: bool = False) -> None:
        super().__init__(length)
        self.folder = folder
        self.draws = draws
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self._write({"set_epoch": epoch})
        self.epoch = epoch

    def __getitem__(self, index: int):
        row: dict[str, object] = {"epoch": self.epoch, "index": index}
        if self.draws:
            row["draws"] = [torch.rand(()).item(), float(np.random.rand()), random.random()]
        self._write(row)
        return super().__getitem__(index)

    def _write(self, row: dict[str, object]) -> None:
        with (self.folder / f"rank-{os.environ.get('RANK', '0')}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


@register("dataset", "jittered")
class Jittered(Points):
    """Adds noise from torch's global generator to every sample."""

    def __getitem__(self, index: int):
        inputs, label = super().__getitem__(index)
        return inputs + torch.randn(inputs.shape), label


@register("dataset", "sequences")
class Sequences:
    """Token sequences whose targets are partly -100: samples of 1 to 9 counted tokens, some of none."""

    def __init__(self, length: int, context: int = 9, vocabulary: int = 7, some_empty: bool = True) -> None:
        generator = torch.Generator().manual_seed(length)
        self.tokens = torch.randint(vocabulary, (length, context), generator=generator)
        self.targets = torch.randint(vocabulary, (length, context), generator=generator)
        for number in range(length):
            counted = number % (context + 1) if some_empty else 1 + number % context
            self.targets[number, counted:] = -100

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int):
        return self.tokens[index], self.targets[index]


@register("dataset", "faulty")
class Faulty(Points):
    """Raises at one index."""

    def __init__(self, length: int, bad: int) -> None:
        super().__init__(length)
        self.bad = bad

    def __getitem__(self, index: int):
        if index == self.bad:
            raise IndexError(f"sample {index} is broken")
        return super().__getitem__(index)


@register("model", "net")
class Net(nn.Module):
    """Two layers, with dropout and batch norm if asked, in float64 if asked."""

    def __init__(
        self,
        features: int = 8,
        width: int = 16,
        classes: int = 3,
        dropout: float = 0.0,
        batch_norm: bool = False,
        double: bool = False,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.norm = nn.BatchNorm1d(width) if batch_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Linear(width, classes)
        if double:
            self.double()

    def forward(self, inputs):
        return self.second(self.dropout(torch.tanh(self.norm(self.first(inputs)))))


@register("model", "slow_net")
class SlowNet(Net):
    """Takes a minute to build."""

    def __init__(self) -> None:
        super().__init__()
        print("building slowly", file=sys.stderr, flush=True)
        time.sleep(60)


@register("model", "bigrams")
class Bigrams(nn.Module):
    """Logits (N, T, vocabulary) from the token alone, in float64."""

    def __init__(self, vocabulary: int = 7) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary).double()

    def forward(self, tokens):
        return self.table(tokens)


@register("objective", "summed_tokens")
class SummedTokens:
    """Token cross entropy that counts its own weight."""

    def __call__(self, model, batch):
        tokens, targets = batch
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        return Outcome(loss, (targets != -100).sum(), logits, targets)


@register("metric", "undeclared")
class Undeclared(Metric):
    """Says nothing of how its state is reduced."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("worst", torch.tensor(0.0), None)  # type: ignore[arg-type]

    def update(self, outcome):
        self.worst = torch.maximum(self.worst, outcome.loss.detach().float())

    def compute(self):
        return self.worst


@register("metric", "median")
class Median(Metric):
    """The median of the labels: needs every value, so its state grows."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("seen", torch.zeros(0, dtype=torch.int64), "cat")

    def update(self, outcome):
        self.seen = torch.cat([self.seen, outcome.targets.flatten()])

    def compute(self):
        return self.seen.double().median()


@register("metric", "extremes")
class Extremes(Metric):
    """The largest less the smallest logit."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("largest", torch.tensor(float("-inf")), "max")
        self.add_state("smallest", torch.tensor(float("inf")), "min")

    def update(self, outcome):
        self.largest = torch.maximum(self.largest, outcome.predictions.max().float())
        self.smallest = torch.minimum(self.smallest, outcome.predictions.min().float())

    def compute(self):
        return self.largest - self.smallest


@register("metric", "drifting")
class Drifting(Metric):
    """Declares a count, and makes a fraction of it."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0), "sum")

    def update(self, outcome):
        self.total = self.total + outcome.loss.detach().double()

    def compute(self):
        return self.total


@register("metric", "stateless")
class Stateless(Metric):
    """Counts in an attribute that it does not declare."""

    def __init__(self) -> None:
        super().__init__()
        self.samples = 0

    def update(self, outcome):
        self.samples += len(outcome.targets)

    def compute(self):
        return self.samples


@register("sampler", "torchs_random")
class TorchsRandom(torch.utils.data.RandomSampler):
    """A torch Sampler, with a generator of its own if asked."""

    def __init__(self, dataset, own_generator: bool = False) -> None:
        super().__init__(dataset, generator=torch.Generator() if own_generator else None)


@register("model", "remembering")
class Remembering(Net):
    """Trains with a running mean that is in no state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, inputs):
        if self.training:
            self.mean.lerp_(inputs.mean(0), 0.1)
        return super().forward(inputs - self.mean)


@register("hook", "thrower")
class Thrower(Hook):
    """Raises in one event of one step."""

    def __init__(self, step: int = 3, event: str = "on_step_end") -> None:
        self.step = step
        self.event = event

    def _maybe(self, run, event):
        if event == self.event and run.step >= self.step:
            raise ValueError("the hook broke on purpose")

    def on_run_start(self, run):
        self._maybe(run, "on_run_start") if self.step == 0 else None

    def on_step_end(self, run):
        self._maybe(run, "on_step_end")

    def on_evaluate_end(self, run):
        self._maybe(run, "on_evaluate_end")

    def on_epoch_end(self, run):
        self._maybe(run, "on_epoch_end")


@register("hook", "slow")
class Slow(Hook):
    """Makes every step, or only one, take a while, and says that it has begun."""

    ranks = "all"

    def __init__(self, seconds: float = 0.05, only: int | None = None) -> None:
        self.seconds = seconds
        self.only = only

    def on_step_end(self, run):
        if run.step == 1 and run.world.rank == 0:
            print("first step done", file=sys.stderr, flush=True)
        if self.only in (None, run.step):
            time.sleep(self.seconds)


@register("hook", "drawing_at_start")
class DrawingAtStart(Hook):
    """Draws whenever an attempt begins."""

    ranks = "all"

    def on_run_start(self, run):
        torch.rand(()), np.random.rand(), random.random()


@register("hook", "asker")
class Asker(Hook):
    """Asks for a stop or a checkpoint at a step."""

    def __init__(self, step: int, stop: bool = False, checkpoint: bool = False) -> None:
        self.step = step
        self.wants_stop = stop
        self.wants_checkpoint = checkpoint

    def on_step_end(self, run):
        if run.step == self.step:
            if self.wants_checkpoint:
                run.checkpoint("asked for")
            if self.wants_stop:
                run.stop("enough")


@register("hook", "journal")
class Journal(Hook):
    """Writes every call, in order, to run.folder/journal-RANK.txt, and keeps count in its state."""

    ranks = "all"

    def __init__(self) -> None:
        self.calls = 0

    def _note(self, run, event):
        self.calls += event != "run_start"  # which comes once an attempt
        with (run.folder / f"journal-{run.world.rank}.txt").open("a") as file:
            file.write(f"{event} epoch={run.epoch} step={run.step} calls={self.calls}\n")

    def on_run_start(self, run):
        self._note(run, "run_start")

    def on_epoch_start(self, run):
        self._note(run, "epoch_start")

    def on_step_end(self, run):
        self._note(run, "step_end")
        run.log("journal/rank", float(run.world.rank))

    def on_evaluate_end(self, run):
        self._note(run, "evaluate_end")

    def on_epoch_end(self, run):
        self._note(run, "epoch_end")

    def on_run_end(self, run):
        self._note(run, "run_end")

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]
