"""Why a gradient differs: how far batch, model and loss still agree, followed from one to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.cli.verification import distance
from pipeline.cli.verification.evidence import Evidence


class Culprit(NamedTuple):
    """Who is to blame, and how that is known."""

    component: str
    """Empty: it cannot be told."""
    reason: str


_STAGES = (
    ("batch", Culprit("dataset.train", "the same samples are collated to other batches")),
    ("inputs", Culprit("objective", "from the same batches other inputs go into the model")),
    ("outputs", Culprit("model", "from the same inputs the model gives other outputs for the same samples")),
)
_LOSS = Culprit("objective", "from the same outputs the sum of the losses is another")
_UNTOLD = "whether model or objective brings that about cannot be told"


def culprit(step: int, one: Sequence[Evidence], two: Sequence[Evidence], tolerance: float) -> Culprit:
    """Compare what became of each sample of a step in two trials, whose parameters were equal before it.

    Args:
        one, two: the ranks of each.
    """
    for name, blamed in _STAGES:
        left, right = _gathered(step, one, name), _gathered(step, two, name)
        if left is None or right is None:
            return Culprit("", _UNTOLD)
        if distance.between({name: left}, {name: right})[0] > tolerance:
            return blamed
    losses = [math.fsum(rank.values[step].loss for rank in ranks) for ranks in (one, two)]
    if not math.isclose(*losses, rel_tol=tolerance):
        return _LOSS
    return Culprit("", f"outputs and losses are equal; {_UNTOLD}")


def _gathered(step: int, ranks: Sequence[Evidence], name: str) -> Tensor | None:
    """The rows of all ranks in the order of the global batch; None where rows are not samples."""
    values = [rank.values[step] for rank in ranks]
    window = len(values[0].window)
    gathered = torch.zeros(window, 2, dtype=torch.float64)
    for rank, one in enumerate(values):
        rows = one.rows.get(name)
        if rows is None or len(rows) != len(range(rank, window, len(ranks))):
            return None
        gathered[rank :: len(ranks)] = rows
    return gathered
