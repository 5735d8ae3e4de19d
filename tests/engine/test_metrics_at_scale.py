"""The fused reduction of metrics at any number of ranks, by simulation: exact, one collective, linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline import Metric, Outcome
from pipeline.api.metric import State
from pipeline.components.metrics.accuracy import Accuracy
from pipeline.components.metrics.mean_absolute_error import MeanAbsoluteError
from pipeline.engine.group import Alone
from pipeline.engine.reduction import reduce_states

MOST_RANKS = 1024


class Packed(Exception):
    """Leaves the reduction with what this rank hands to the collective."""

    def __init__(self, data: Tensor) -> None:
        super().__init__()
        self.data = data


class Handing(Alone):
    """A rank up to its first collective."""

    world_size = MOST_RANKS

    def all_gather(self, packed: Tensor) -> list[Tensor]:
        raise Packed(packed)


class Gathered(Alone):
    """A rank to which the others' bytes come."""

    def __init__(self, data: Sequence[Tensor]) -> None:
        self.world_size = len(data)
        self._data = list(data)
        self.collectives = 0

    def all_gather(self, packed: Tensor) -> list[Tensor]:
        self.collectives += 1
        return self._data


class Operations(TorchDispatchMode):
    """Counts the operations on tensors inside."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def metrics() -> list[Metric]:
    return [Accuracy(), MeanAbsoluteError()]


def update(all_metrics: Sequence[Metric], predictions: Tensor, classes: Tensor) -> None:
    """Accuracy of (N, C) with (N,), and the error of the first column: quarters, which add exactly."""
    accuracy, error = all_metrics
    accuracy.update(Outcome(torch.tensor(0.0), predictions=predictions, targets=classes))
    error.update(Outcome(torch.tensor(0.0), predictions=predictions[:, 0], targets=classes / 4))


def states(all_metrics: Sequence[Metric]) -> list[State]:
    return [state for metric in all_metrics for state in metric.states().values()]


def handed_over(all_metrics: Sequence[Metric]) -> Tensor:
    own = states(all_metrics)
    with pytest.raises(Packed) as packed:
        reduce_states(own, Handing(), ["state"] * len(own))
    return packed.value.data


def test_1024_ranks_have_the_value_of_one():
    """Ranks with from none to six samples: exactly what one rank computes from all of them."""
    generator = torch.Generator().manual_seed(7)
    sizes = [rank % 7 for rank in range(MOST_RANKS)]
    predictions = torch.randint(-40, 40, (sum(sizes), 5), generator=generator) / 4
    classes = torch.randint(5, (sum(sizes),), generator=generator)
    data = []
    for own_predictions, own_classes in zip(predictions.split(sizes), classes.split(sizes), strict=True):
        own = metrics()
        if len(own_classes):
            update(own, own_predictions, own_classes)
        data.append(handed_over(own))
    group, joined = Gathered(data), metrics()
    values = iter(reduce_states(states(joined), group, ["state"] * len(states(joined))))
    for metric in joined:
        for name in metric.states():
            setattr(metric, name, next(values))
    alone = metrics()
    update(alone, predictions, classes)
    assert [float(metric.compute()) for metric in joined] == [float(metric.compute()) for metric in alone]
    assert group.collectives == 1


def test_the_cost_of_joining_is_linear_in_the_ranks():
    """Counted, not timed: so many operations for every further rank, and no more."""
    own = states(metrics())
    mine = handed_over(metrics())
    counts = []
    for ranks in (MOST_RANKS // 4, MOST_RANKS // 2, MOST_RANKS):
        with Operations() as operations:
            reduce_states(own, Gathered([mine] * ranks), ["state"] * len(own))
        counts.append(operations.count)
    quarter, half, whole = counts
    assert whole - half == 2 * (half - quarter)
    assert whole <= 10 * len(own) * MOST_RANKS
