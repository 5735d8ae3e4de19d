"""The objective: whether the loss of a batch is the sum of the losses of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from pipeline.api.outcome import Outcome
from pipeline.engine import random_state
from pipeline.engine.evaluate import evaluating
from pipeline.engine.fetch import Fetcher, Request
from pipeline.engine.step_module import StepModule, to_device

_SAMPLES = 24

Additivity = Literal["sum", "mean", "other", "not repeatable"]


def additivity(modules: StepModule, fetcher: Fetcher, *, double: bool) -> Additivity:
    """Compare the loss of some samples with those of a third and of the rest of them."""
    indices = range(min(_SAMPLES, len(fetcher.dataset)))
    third = max(1, len(indices) // 3)
    with torch.no_grad():
        whole, again, few, rest = (
            float(_outcome(modules, fetcher, part).loss)
            for part in (indices, indices, indices[:third], indices[third:] or indices)
        )
    tolerance = 1e-6 if double else 1e-3
    if len(indices) < 2 or abs(whole - few - rest) <= tolerance * (abs(few) + abs(rest)):
        return "sum"
    if whole != again:
        return "not repeatable"
    low, high = min(few, rest), max(few, rest)
    margin = 1e-3 * (abs(low) + abs(high))
    return "mean" if low - margin <= whole <= high + margin else "other"


def outcomes(modules: StepModule, fetcher: Fetcher) -> Sequence[Outcome]:
    """Of two unequal shares of some samples, as an evaluation has them."""
    indices = range(min(_SAMPLES, len(fetcher.dataset)))
    third = math.ceil(len(indices) / 3)
    with torch.no_grad(), evaluating(modules):
        return [_outcome(modules, fetcher, part) for part in (indices[:third], indices[third:]) if part]


def _outcome(modules: StepModule, fetcher: Fetcher, indices: range) -> Outcome:
    device = next(modules.parameters()).device
    with random_state.preserved():
        batch = to_device(fetcher[Request(0, np.array(indices, dtype=np.int64))], device)
        return modules.outcome(batch)
