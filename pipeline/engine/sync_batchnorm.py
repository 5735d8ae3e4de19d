"""Batch norm over all ranks: where torch can do it, and where its collectives would not pair.

In training every forward pass of a synchronised batch norm waits for the same pass on all other ranks.
A rank with fewer microbatches of a global batch than another would leave that one waiting.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from pipeline.api.settings import TrainSettings
from pipeline.engine.dealing import cut_evenly, share_size
from pipeline.engine.world import World
from pipeline.errors import RunError

NEEDS_CUDA = "needs CUDA: torch has no synchronised batch norm on the CPU"


def synchronised(model: nn.Module, world: World) -> nn.Module:
    """The model with its batch norms joined over the ranks; alone, as it is.

    Raises:
        RunError: on the CPU.
    """
    if world.device.type != "cuda":
        raise RunError(f"train.sync_batchnorm = true {NEEDS_CUDA}")
    if world.world_size == 1:
        return model
    converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    return converted


def unpaired(train: TrainSettings, window_sizes: Iterable[int], world_size: int) -> str | None:
    """Why batch norms could not be joined; None where all ranks have equally many microbatches.

    Args:
        window_sizes: of the global batches that the run is known to have.
    """
    for window_size in window_sizes:
        shares = [share_size(window_size, rank, world_size) for rank in (0, world_size - 1)]
        most, fewest = (len(cut_evenly(share, train.max_microbatch_size or share or 1)) for share in shares)
        if most != fewest:
            return (
                f"would wait for ever: of a global batch of {window_size} samples some of the {world_size} "
                f"ranks have {most} microbatches and others {fewest}, and a batch norm waits for the same "
                "pass on every rank"
            )
    return None


def require_paired(train: TrainSettings, window_sizes: Iterable[int], world_size: int) -> None:
    """Hold that batch norms can be joined, where they are to be.

    Raises:
        RunError: with the reason and the remedy.
    """
    reason = unpaired(train, window_sizes, world_size) if train.sync_batchnorm else None
    if reason is not None:
        raise RunError(
            f"train.sync_batchnorm = true {reason}; leave out a short last batch (loader.drop_last), or "
            "choose a train.global_batch_size that gives every rank as much"
        )
