"""What a hook sees of the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


class World(Protocol):
    """Where this process stands among all processes of the run."""

    @property
    def rank(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def local_world_size(self) -> int: ...


class Run(Protocol):
    """A narrow, read-only view of the run, given to every hook method.

    A hook asks (``stop``, ``checkpoint``, ``log``), the loop does.
    """

    @property
    def epoch(self) -> int:
        """The epoch in progress, from 0, as every ``set_epoch`` is given it."""
        ...

    @property
    def step(self) -> int:
        """Optimizer steps done since the run began."""
        ...

    @property
    def samples_seen(self) -> int:
        """Training samples consumed by all ranks since the run began."""
        ...

    @property
    def steps_per_epoch(self) -> int | None:
        """Optimizer steps of an epoch; None for an iterable dataset, whose end only reading it tells."""
        ...

    @property
    def total_steps(self) -> int | None:
        """Optimizer steps of the whole run, with the rest as it is dealt now.

        None for epochs of an iterable dataset, until the last of them has ended.
        """
        ...

    @property
    def metrics(self) -> Mapping[str, float]:
        """The last value of every metric, as ``{"train/loss": .., "eval/accuracy": ..}``."""
        ...

    @property
    def metrics_steps(self) -> Mapping[str, int]:
        """The step at which each of ``metrics`` was measured."""
        ...

    @property
    def model(self) -> nn.Module:
        """The bare model: not wrapped by DDP, nor compiled; calling it never involves other ranks."""
        ...

    @property
    def optimizer(self) -> Optimizer: ...

    @property
    def folder(self) -> Path:
        """The run folder; only the host of rank 0 is sure to have it."""
        ...

    @property
    def name(self) -> str:
        """The run's name, the folder's first part."""
        ...

    @property
    def world(self) -> World: ...

    def log(self, name: str, value: float | Tensor) -> None:
        """Record a value in the next row of metrics.jsonl.

        In a hook of all ranks it is averaged over them in the next fused collective; in a gated
        one it is recorded as it is. A tensor is read at the next log point, not now.
        """
        ...

    def stop(self, reason: str) -> None:
        """End the run as completed, with this reason, at the end of the event or the next log point."""
        ...

    def checkpoint(self, reason: str) -> None:
        """Write a checkpoint at the end of the event or the next log point."""
        ...
