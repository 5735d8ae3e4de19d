"""One pass of a rank over its shards of an iterable dataset, cut into shares of global batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from pipeline.engine.sources import Source
from pipeline.engine.stream_fetch import Piece, ShardRequest, Start


@dataclass(frozen=True)
class Progress:
    """How far this rank's shards have been consumed."""

    requests: int
    """Answered and done with; they go to the shards in turn."""
    starts: tuple[Start, ...]
    """Where each shard goes on."""

    @classmethod
    def none(cls, shards: int) -> Progress:
        return cls(0, (Start(),) * shards)


@dataclass(frozen=True)
class Portion:
    """What a rank reads of one global batch."""

    pieces: tuple[Piece, ...]
    progress: Progress
    """When these are consumed."""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


class Pass:
    """Reads the shards of a rank in turn, from where an earlier pass stopped to the end of all of them.

    Args:
        first_shard: this rank's first among all shards.
        sizes: the microbatches of this rank's share of a full global batch.
    """

    def __init__(
        self, source: Source, epoch: int, progress: Progress, *, first_shard: int, sizes: Sequence[int]
    ) -> None:
        self._epoch = epoch
        self._first_request = self._requests = progress.requests
        self._starts = list(progress.starts)
        self._first_shard = first_shard
        self._sizes = sizes
        self._ended: set[int] = set()
        self._held: Piece | None = None
        self._closed = False
        self._pieces: Iterator[Piece] = source.read(self._plan)

    def take(self) -> Portion:
        """The next share: as many microbatches as fit in it; none where all shards have ended."""
        pieces: list[Piece] = []
        room = sum(self._sizes)
        while room and (piece := self.peek()) is not None and piece.size <= room:
            self._held = None
            own = piece.shard - self._first_shard
            self._starts[own] = Start(self._starts[own].samples + piece.size, piece.state)
            room -= piece.size
            pieces.append(piece)
        done = self._requests - (self._held is not None)
        return Portion(tuple(pieces), Progress(done, tuple(self._starts)))

    def peek(self) -> Piece | None:
        """The next microbatch, which stays to be taken; None where all shards have ended."""
        while self._held is None and len(self._ended) < len(self._starts):
            piece = next(self._pieces)
            self._requests += 1
            if piece.size:
                self._held = piece
            else:
                self._ended.add(piece.shard)
        return self._held

    def close(self) -> None:
        """Take back what was asked for ahead, so that the workers are ready for the next pass."""
        self._closed = True
        for _ in self._pieces:
            pass

    def _plan(self) -> Iterator[ShardRequest]:
        """Requests to each shard in turn, for as long as answers are asked for."""
        shards = len(self._starts)
        starts = tuple(self._starts)
        for number in count(self._first_request):
            if self._closed:
                return
            own = number % shards
            start = starts[own] if number < self._first_request + shards else None
            size = self._sizes[number % len(self._sizes)]
            yield ShardRequest(self._epoch, self._first_shard + own, size, start)
