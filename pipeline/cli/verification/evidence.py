"""What a trial leaves: a trace of who did what, values to compare, and what is kept where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.cli.verification.attributes import Attributes


class Entry(NamedTuple):
    """Something that came about, in the order of the run."""

    step: int
    """The step in progress, from 1; 0 before the first."""
    component: str
    """The key of who brought it about; empty: the engine."""
    what: str
    digest: str
    shared: bool
    """Whether all ranks must have the same."""

    def agrees(self, other: Entry) -> bool:
        """Whether the same came about, whoever is thought to have brought it about."""
        return (self.step, self.what, self.digest) == (other.step, other.what, other.digest)


@dataclass
class Values:
    """What is compared between world sizes, of one step; of tensors their sketches, float64."""

    gradients: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict[str, Tensor] = field(default_factory=dict)
    learning_rates: list[float] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    window: list[int] = field(default_factory=list)
    """Indices of the global batch, as this rank was dealt them; empty for an iterable dataset."""
    share: list[int] = field(default_factory=list)
    """Those that this rank read."""
    epoch: int = 0
    rows: dict[str, Tensor] = field(default_factory=dict)
    """Of ``batch``, ``inputs`` and ``outputs`` of the model two numbers for each sample of the share,
    (samples, 2); of none where a first dimension is not that of samples."""
    loss: float = 0.0
    """The sum over the share."""


@dataclass
class Evidence:
    """What one rank of a trial has seen."""

    trace: list[Entry] = field(default_factory=list)
    values: dict[int, Values] = field(default_factory=dict)
    """By step."""
    attributes: dict[int, dict[str, Attributes]] = field(default_factory=dict)
    """Before some steps, by component."""
    without_gradient: list[str] = field(default_factory=list)
    """Parameters in training that had no gradient in any step."""
    draws: dict[str, list[str]] = field(default_factory=dict)
    """By component, the global generators that it moved while training."""
    owners: dict[str, str] = field(default_factory=dict)
    """Who gave each metric."""
    items: dict[str, list[str]] = field(default_factory=dict)
    """Of each dataset the digests of some samples, read when the trial was over."""
    measured: list[str] = field(default_factory=list)
    """Names of logged values that are measured."""
    measuring: list[str] = field(default_factory=list)
    """Hooks that log such values."""
    neutralised: list[str] = field(default_factory=list)
    """Modules whose dropout or batch statistics were switched off."""
    steps_per_epoch: int | None = None
    is_stream: bool = False
    devices: int | None = None
    """How many this host has where every process needs one of its own."""
    samples: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By evaluation dataset: how many are evaluated, and of how many."""

    def write(self, path: Path) -> None:
        plain = {
            "trace": [tuple(entry) for entry in self.trace],  # torch.load gives back plain data alone
            "values": {step: vars(one) for step, one in self.values.items()},
        }
        torch.save({**vars(self), **plain}, path)

    @classmethod
    def read(cls, path: Path) -> Evidence:
        data: dict[str, Any] = torch.load(path, weights_only=True)
        trace = [Entry(*entry) for entry in data.pop("trace")]
        values = {step: Values(**one) for step, one in data.pop("values").items()}
        return cls(trace=trace, values=values, **data)


@dataclass(frozen=True)
class Difference:
    """Where two traces part: everything before it is equal."""

    entry: Entry
    """What came about otherwise, or in one of them alone."""
    components: tuple[str, ...]
    """Who brought it about, in the one and in the other; empty where that cannot be told."""

    @property
    def component(self) -> str:
        """Who is to blame; empty where that cannot be told."""
        return next(filter(None, reversed(self.components)), "")


def first_difference(one: Sequence[Entry], two: Sequence[Entry]) -> Difference | None:
    """Where two traces part."""
    for at, (left, right) in enumerate(zip(one, two, strict=False)):
        if not left.agrees(right):
            return _difference(one[at:], two[at:])
    if len(one) != len(two):
        longer = one if len(one) > len(two) else two
        entry = longer[min(len(one), len(two))]
        return Difference(entry, (entry.component,))
    return None


def shared_entries(evidence: Evidence) -> list[Entry]:
    """What all ranks must have alike."""
    return [entry for entry in evidence.trace if entry.shared]


def ranks_differ(ranks: Sequence[Evidence]) -> bool:
    """Whether the ranks of a trial differ where they must not."""
    first, *others = map(shared_entries, ranks)
    return any(first_difference(first, other) for other in others)


def _difference(one: Sequence[Entry], two: Sequence[Entry]) -> Difference:
    """Of two traces that differ in their first entry."""
    left, right = one[0], two[0]
    if (left.step, left.what) == (right.step, right.what):
        return Difference(left, (left.component, right.component))
    # What changes nothing leaves no entry: one of the two is in one trace alone, and is the difference.
    alone = [entry for entry, others in ((left, two), (right, one)) if not _is_in(entry, others)]
    return Difference((alone or [left])[0], (alone[0].component,) if len(alone) == 1 else ())


def _is_in(entry: Entry, others: Sequence[Entry]) -> bool:
    return any((other.step, other.what) == (entry.step, entry.what) for other in others)
