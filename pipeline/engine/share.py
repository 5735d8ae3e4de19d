"""What falls to a rank of a global batch, and what gives it: the interface of all readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.engine.fetch import Reading
from pipeline.engine.position import Position


@dataclass(frozen=True, slots=True)
class Share:
    """What falls to this rank of one global batch."""

    window_size: int
    """Samples of the global batch, over all ranks."""
    sizes: tuple[int, ...]
    """Samples of each microbatch of this rank; empty where it has none."""
    microbatches: Iterator[Any]
    """The microbatches themselves, read as they are asked for; consume all of them."""
    is_last: Callable[[], bool]
    """Whether the epoch ends with it, equal on all ranks; to be asked when the share is consumed."""
    first_rank: int = 0
    """The lowest rank that has samples of the global batch."""


@dataclass(frozen=True)
class Saved:
    """What a checkpoint says of the reading."""

    checkpoint: str
    """Its name, for messages."""
    position: Mapping[str, int]
    """The counters of the run."""
    global_batch_size: int
    by_rank: Sequence[Mapping[str, Any]]
    """Every rank's ``state_dict``."""


class ShareReader(Protocol):
    """Reads this rank's shares of a dataset."""

    @property
    def fetcher(self) -> Reading:
        """The dataset as it is read here."""
        ...

    @property
    def steps(self) -> int | None:
        """Global batches of an epoch; None where only reading it tells."""
        ...

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[Share]:
        """The shares of an epoch from ``first_step`` on."""
        ...

    def first_microbatch(self, epoch: int, step: int) -> Any:
        """The first microbatch of this rank at a step; None where it has no sample. Nothing is consumed."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All but the position that this rank needs to go on behind the last share consumed."""
        ...

    def resume(self, position: Position, saved: Saved, say: Callable[[str], None]) -> None:
        """Go on where a checkpoint was written; corrects the position where the epoch is cut in another way.

        Raises:
            CheckpointError: if the place cannot be found again.
        """
        ...

    def close(self) -> None:
        """End the workers."""
        ...
