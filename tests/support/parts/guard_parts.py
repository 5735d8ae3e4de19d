"""A sample that makes the loss NaN, and hooks that speak at the very beginning and end."""

from __future__ import annotations

import torch

from parts import Points
from pipeline import Hook, register


@register("dataset", "poisoned")
class Poisoned(Points):
    """Sample ``bad`` is not a number."""

    def __init__(self, length: int, bad: int) -> None:
        super().__init__(length)
        self.bad = bad

    def __getitem__(self, index: int):
        inputs, target = super().__getitem__(index)
        return (torch.full_like(inputs, float("nan")) if index == self.bad else inputs), target


@register("hook", "stop_at_start")
class StopAtStart(Hook):
    def on_run_start(self, run):
        run.stop("enough")


@register("hook", "last_word")
class LastWord(Hook):
    def on_run_end(self, run):
        run.log("last/word", 7.0)
