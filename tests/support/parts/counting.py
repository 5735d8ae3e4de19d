"""A hook that counts the collectives between its calls, by standing in for torch.distributed's functions."""

from __future__ import annotations

import json
from collections import Counter

import torch.distributed as dist

from pipeline import Hook, register

COLLECTIVES = (
    "all_gather",
    "all_gather_object",
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "reduce",
    "scatter",
)


@register("hook", "counting")
class Counting(Hook):
    """Writes {"step": .., "calls": {name: number}} after every step.

    What comes before the first is step 0. A call inside another is not counted.
    """

    ranks = "all"

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.inside = False

    def on_run_start(self, run):
        for name in COLLECTIVES:
            if hasattr(dist, name):
                setattr(dist, name, self.counted(name, getattr(dist, name)))

    def counted(self, name, real):
        def call(*arguments, **options):
            if self.inside:
                return real(*arguments, **options)
            self.calls[name] += 1
            self.inside = True
            try:
                return real(*arguments, **options)
            finally:
                self.inside = False

        return call

    def on_epoch_start(self, run):
        if run.step == 0:
            self.write(run)

    def on_step_end(self, run):
        self.write(run)

    def write(self, run):
        if run.world.rank == 0:
            with (run.folder / "collectives.jsonl").open("a") as file:
                file.write(json.dumps({"step": run.step, "calls": self.calls}) + "\n")
        self.calls.clear()
