"""Samplers as orders: the engine's own protocol, or a torch Sampler read once an epoch on rank 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Sampler

from pipeline.api.order import Order
from pipeline.api.seeds import derive_seed
from pipeline.engine import random_state
from pipeline.engine.epochs import tell_epoch
from pipeline.engine.experiment import Part
from pipeline.engine.group import Group
from pipeline.errors import ComponentError


def as_order(sampler: Any, group: Group, seed: int, part: Part, *, is_main: bool = True) -> Order:
    """The order that a sampler component stands for.

    Args:
        is_main: whether this is rank 0, where a torch Sampler is read.

    Raises:
        ComponentError: if it is neither an Order nor a torch Sampler.
    """
    if isinstance(sampler, Order):
        return sampler
    if isinstance(sampler, Sampler):
        return TorchSamplerOrder(sampler, group, seed, is_main=is_main)
    raise ComponentError(f"{part} is neither an order (samples_per_epoch, indices) nor a torch Sampler")


class TorchSamplerOrder:
    """A torch Sampler's indices: read as a whole on rank 0 and broadcast, O(n) memory on every rank.

    The global generators, and the sampler's own ``generator``, are seeded by the epoch before it is
    read, so that a sampler which draws gives the same order again after a resume.
    """

    def __init__(self, sampler: Sampler[int], group: Group, seed: int, *, is_main: bool) -> None:
        self._sampler = sampler
        self._is_main = is_main
        self._group = group
        self._seed = seed
        self._epoch: int | None = None
        self._indices: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.samples_per_epoch = len(sampler)  # type: ignore[arg-type]  # a torch Sampler may lack it

    def set_epoch(self, epoch: int) -> None:
        """Read the order of an epoch, on all ranks together, before the first index is asked for."""
        if epoch != self._epoch:
            self._indices = self._read(epoch)
            self._epoch = epoch

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        if epoch != self._epoch:
            raise ValueError(f"set_epoch({epoch}) was not called; the order is that of epoch {self._epoch}")
        return self._indices[start:stop]

    def _read(self, epoch: int) -> NDArray[np.int64]:
        tell_epoch(self._sampler, epoch, inside=("sampler",))
        indices: NDArray[np.int64] = self._group.broadcast(self._drawn(epoch) if self._is_main else None)
        if len(indices) != self.samples_per_epoch:
            raise ComponentError(
                f"{type(self._sampler).__name__} gave {len(indices)} indices, but its length is "
                f"{self.samples_per_epoch}"
            )
        return indices

    def _drawn(self, epoch: int) -> NDArray[np.int64]:
        """All of the sampler's indices."""
        with random_state.preserved():
            random_state.seed_all(self._seed, epoch)
            generator = getattr(self._sampler, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(derive_seed(self._seed, "generator", epoch))
            return np.fromiter(self._sampler, dtype=np.int64)
