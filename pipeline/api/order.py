"""In what order the training samples come: what a sampler component gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class Order(Protocol):
    """An order of samples; the engine deals it to the ranks (rank r of W gets ``window[r::W]``).

    It knows nothing of ranks, workers or batches, so any order is sharded exactly.
    """

    @property
    def samples_per_epoch(self) -> int:
        """How many indices an epoch has; the dataset's length unless samples are drawn."""
        ...

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """The dataset indices at positions ``start`` to ``stop`` of the epoch, as int64 (stop - start,).

        A pure function: the same arguments give the same indices, in any process, at any time.
        """
        ...
