"""The default order as a sampler for hand-written loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pipeline.api.permutation import KeyedPermutation
from pipeline.api.seeds import derive_seed
from pipeline.engine.dealing import Dealing


class EpochSampler:
    """Per global batch, this rank's list of dataset indices.

    Every index comes exactly once an epoch over all ranks, without padding; the shares of a batch
    differ by at most one, so a short batch may leave a rank an empty list. Memory and start-up
    are O(1) in ``length``. Use it as the ``batch_sampler`` of a DataLoader.

    Args:
        length: samples in the dataset.
        seed: the root of the order; the same on all ranks.
        rank, world_size: this process among all.
        global_batch_size: samples of one optimizer step over all ranks.
        shuffle: False gives the natural order.
        drop_last: leave out the last global batch where it is short.

    Raises:
        ValueError: if the rank lies outside the world, or a size is not positive.
    """

    def __init__(
        self,
        length: int,
        *,
        seed: int,
        rank: int,
        world_size: int,
        global_batch_size: int,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        if length < 0 or global_batch_size < 1:
            raise ValueError(f"got length {length} and global_batch_size {global_batch_size}")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
        self.length = length
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.shuffle = shuffle
        self.dealing = Dealing(length, global_batch_size, drop_last)
        self._epoch = 0
        self._step = 0
        self._exhausted = False

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of another epoch; the epoch it already stands in keeps its position.

        So a loop that calls it before every epoch needs no special case after a resume.
        Iterating again without it repeats the epoch.
        """
        if epoch != self._epoch:
            self._epoch, self._step, self._exhausted = epoch, 0, False

    def __len__(self) -> int:
        """Global batches of a whole epoch."""
        return self.dealing.steps

    def __iter__(self) -> Iterator[list[int]]:
        """The batches from the position on: the epoch's start, or where ``load_state_dict`` put it."""
        if self._exhausted:
            self._step, self._exhausted = 0, False
        permute = KeyedPermutation(self.length, derive_seed(self.seed, "shuffle", self._epoch))

        def indices(start: int, stop: int) -> NDArray[np.int64]:
            positions = np.arange(start, stop)
            return permute(positions) if self.shuffle else positions

        steps = range(self._step, self.dealing.steps)
        shares = self.dealing.shares(indices, steps, rank=self.rank, world_size=self.world_size)
        for step, share in zip(steps, shares, strict=True):
            self._step = step + 1  # before the yield: a state taken while this batch is in use counts it
            yield share.tolist()
        self._exhausted = True

    def state_dict(self) -> dict[str, int]:
        """The position: batches given out so far. It holds at any world size."""
        return {"epoch": self._epoch, "samples": self._step * self.dealing.global_batch_size}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue behind the last batch given out when the state was taken.

        Raises:
            ValueError: if the position does not lie between two batches of this size.
        """
        step, rest = divmod(state["samples"], self.dealing.global_batch_size)
        if rest:
            raise ValueError(
                f"the state stands at sample {state['samples']}, which is no multiple of "
                f"global_batch_size {self.dealing.global_batch_size}"
            )
        self._epoch, self._step, self._exhausted = state["epoch"], step, False
