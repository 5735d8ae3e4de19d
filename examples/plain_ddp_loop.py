"""The plain hand-written DDP loop: what the engine does, without the engine.

Read it to see what ``pipeline run`` amounts to; the tests use it as their oracle: fed the same
batches, the engine's parameters are bit for bit those of ``train`` below, after every step.

    python examples/plain_ddp_loop.py
    torchrun --standalone --nproc-per-node 2 examples/plain_ddp_loop.py

It takes the mean loss of each rank's share, and DDP averages the gradients over the ranks. A mean
of means is the mean over the global batch only where all shares are of equal size; so the last,
short batch of an epoch is dropped here. (The engine adds up losses and divides once by the size of
the global batch, which holds for any shares.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from pipeline import EpochSampler
from pipeline.components.datasets.digits import Digits
from pipeline.components.models.mlp import MLP

Batch = tuple[Tensor, ...]


def train(
    model: nn.Module,
    mean_loss: Callable[[nn.Module, Batch], Tensor],
    data: Sequence[Tensor],
    index_lists: Iterable[list[int]],
    make_optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
    *,
    clip_grad_norm: float | None = None,
    after_step: Callable[[nn.Module], None] = lambda model: None,
    **ddp_settings: Any,
) -> nn.Module:
    """Train ``model`` in place, one optimizer step per index list.

    Args:
        model: the bare model, with equal parameters on all ranks.
        mean_loss: from the model (in DDP where there is a group) and a batch, the mean over its
            samples, a scalar.
        data: tensors of equal length, whose rows belong together, as (inputs, labels).
        index_lists: which rows make this rank's batch, for every step; never empty, and equally
            many, of equal sizes, on all ranks.
        make_optimizer: called with the parameters.
        clip_grad_norm: clip the reduced gradient to this norm.
        after_step: called with the bare model after every step.
        ddp_settings: further arguments of DistributedDataParallel, as ``bucket_cap_mb``.
    """
    wrapped = DistributedDataParallel(model, **ddp_settings) if dist.is_initialized() else model
    optimizer = make_optimizer(model.parameters())
    model.train()
    for indices in index_lists:
        batch = tuple(tensor[indices] for tensor in data)
        optimizer.zero_grad(set_to_none=True)
        mean_loss(wrapped, batch).backward()  # DDP averages the gradients over the ranks meanwhile
        if clip_grad_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip_grad_norm)
        optimizer.step()
        after_step(model)
    return model


def classification_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy of a batch (inputs (N, ...), labels (N,))."""
    inputs, labels = batch
    return cross_entropy(model(inputs), labels)


def epochs_of(sampler: EpochSampler, epochs: int) -> Iterable[list[int]]:
    """This rank's index lists of several epochs, each in an order of its own."""
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        yield from sampler


def accuracy(model: nn.Module, split: Digits) -> float:
    """The share of samples whose highest output is their label."""
    model.eval()
    with torch.no_grad():
        predictions = model(split.pixels).argmax(dim=1)
    return (predictions == split.labels).double().mean().item()


def main() -> None:
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world_size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(7)  # equal first parameters on all ranks
    digits = Digits("train")
    sampler = EpochSampler(
        len(digits), seed=7, rank=rank, world_size=world_size, global_batch_size=64, drop_last=True
    )
    model = train(
        MLP(in_features=64, hidden=[128, 64], out_features=10),
        classification_loss,
        (digits.pixels, digits.labels),
        epochs_of(sampler, epochs=20),
        lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
    )
    if rank == 0:
        print(f"accuracy {accuracy(model, Digits('test')):.4f}")
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
