"""This rank's shares of the global batches of an iterable dataset, whose end only reading it tells.

Every rank reads its share of a global batch from its own shards as long as they last. It reads one share
ahead, and while a share is at work the ranks tell each other how many samples they have of the next: so
each global batch's size is known before its backward pass, and the epoch ends on all ranks together,
behind the last sample of the longest shard. A rank that has run out takes part without samples.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

from pipeline.api.settings import LoaderSettings
from pipeline.engine.dealing import cut_evenly, share_size
from pipeline.engine.group import Group
from pipeline.engine.position import Position
from pipeline.engine.share import Saved, Share
from pipeline.engine.sources import source_of
from pipeline.engine.stream_fetch import Start, StreamFetcher
from pipeline.engine.stream_pass import Pass, Portion, Progress
from pipeline.engine.world import World
from pipeline.errors import CheckpointError, ComponentError


class StreamReader:
    """Reads this rank's shards; one StreamReader lives as long as the run, so that its workers do.

    Args:
        group: with whom the global batches are shared; alone, an epoch ends with this rank's own shards.
        batch_size: samples of a global batch over all ranks.
        drop_last: end an epoch before the first global batch that is not full.
        must_have_some: whether an epoch without any global batch is an error.
        origin: what to call the dataset in a message.
    """

    steps = None

    def __init__(
        self,
        fetcher: StreamFetcher,
        world: World,
        settings: LoaderSettings,
        group: Group,
        *,
        batch_size: int,
        max_microbatch_size: int | None,
        drop_last: bool,
        must_have_some: bool,
        worker_seed: int,
        origin: str,
    ) -> None:
        self.fetcher = fetcher
        self._rank = world.rank
        self._group = group
        self._shards = max(1, settings.workers)
        share = max(1, share_size(batch_size, world.rank, world.world_size))
        self._sizes = cut_evenly(share, max_microbatch_size or share)
        self._smallest_batch = batch_size if drop_last else 1
        self._must_have_some = must_have_some
        self._origin = origin
        self._source = source_of(fetcher, world, settings, worker_seed)
        self._progress = Progress.none(self._shards)
        self._prepared: tuple[tuple[int, int], Pass] | None = None

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[Share]:
        """The shares of an epoch from its start, or behind the last one consumed.

        Raises:
            ComponentError: if there is not a single global batch.
        """
        reading = self._begin(epoch, first_step)
        batch = self._next(reading)
        if self._must_have_some and first_step == 0 and self._ends_before(batch):
            raise ComponentError(
                f"{self._origin} gave {sum(batch.counts)} samples in epoch {epoch}; expected at least "
                f"{self._smallest_batch}"
            )
        while not self._ends_before(batch):
            following = self._next(reading)
            self._progress = batch.portion.progress
            yield batch.share(is_last=partial(self._ends_before, following))
            batch = following
        reading.close()

    def first_microbatch(self, epoch: int, step: int) -> Any:
        """The first microbatch of this rank at a step; None where it has no sample. It stays to be read."""
        reading = self._begin(epoch, step)
        self._prepared = (epoch, step), reading
        piece = reading.peek()
        return copy.deepcopy(piece.batch) if piece is not None else None

    def state_dict(self) -> dict[str, Any]:
        """How far this rank's shards have been consumed."""
        return {
            "requests": self._progress.requests,
            "samples": [start.samples for start in self._progress.starts],
            "states": [start.state for start in self._progress.starts],
        }

    def resume(self, position: Position, saved: Saved, say: Callable[[str], None]) -> None:
        """Go on behind the last share consumed; at an epoch's end, with any number of ranks and workers.

        Raises:
            CheckpointError: in mid-epoch, where the shards are others.
        """
        if position.epoch_ended or position.step_in_epoch == 0:
            return
        shards = [len(rank.get("samples", ())) for rank in saved.by_rank]
        if shards != [self._shards] * self._group.world_size:
            raise CheckpointError(
                f"{saved.checkpoint} stands in the middle of an epoch of {self._origin}, read by "
                f"{len(shards)} ranks in {sum(shards)} shards; for {self._group.world_size} ranks with "
                f"{self._shards} each it splits in another way. Resume with as many ranks and loader.workers "
                "as before, or from a checkpoint at an epoch's end"
            )
        own = saved.by_rank[self._rank]
        self._progress = Progress(own["requests"], tuple(map(Start, own["samples"], own["states"])))
        if any(state is None for state in own["states"]):
            say(
                f"{self._origin}: its shards have no state_dict, so what this epoch has consumed is read "
                "again and left out"
            )

    def close(self) -> None:
        """End the workers."""
        self._source.close()

    def _begin(self, epoch: int, first_step: int) -> Pass:
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] == (epoch, first_step):
            return prepared[1]
        self.fetcher.set_epoch(epoch)
        if first_step == 0:
            self._progress = Progress.none(self._shards)
        first_shard = self._rank * self._shards
        return Pass(self._source, epoch, self._progress, first_shard=first_shard, sizes=self._sizes)

    def _next(self, reading: Pass) -> _Batch:
        """Read this rank's part of the next global batch, and begin to tell the others its size."""
        portion = reading.take()
        return _Batch(portion, self._group.all_gather_count(portion.size))

    def _ends_before(self, batch: _Batch) -> bool:
        return sum(batch.counts) < self._smallest_batch


class _Batch:
    """A global batch as this rank sees it."""

    def __init__(self, portion: Portion, gathered: Callable[[], list[int]]) -> None:
        self.portion = portion
        self._gathered = gathered

    @cached_property
    def counts(self) -> list[int]:
        """Every rank's samples; waits for the slowest to read them."""
        return self._gathered()

    def share(self, is_last: Callable[[], bool]) -> Share:
        return Share(
            window_size=sum(self.counts),
            sizes=tuple(piece.size for piece in self.portion.pieces),
            microbatches=iter([piece.batch for piece in self.portion.pieces]),
            is_last=is_last,
            first_rank=next(rank for rank, count in enumerate(self.counts) if count),
        )
