"""The best loop that a careful person writes by hand for one workload, and nothing else.

Rows in memory are cut by index tensors made once an epoch (``index_select``, which is several times as
fast as ``inputs[index]`` for wide rows); the loss is added up on the device and read every 50 steps, as
the engine does; passes that are accumulated do not reduce; DDP has its defaults.

    python -m benchmarks.sides.best_loop JOB      (also under torchrun)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.job import LOG_EVERY, Job, job_of_this_process, joined, place, unreduced
from benchmarks.meter import Meter


@joined()
def train(job: Job) -> None:
    workload = job.workload
    rank, world_size = place()
    model = workload.make_model()
    wrapped: nn.Module = DistributedDataParallel(model) if world_size > 1 else model
    optimizer = workload.make_optimizer(model)
    meter = Meter(optimizer, job)
    total, losses = torch.zeros(()), []
    batches = iter(read(job, workload.data.make()))
    share = torch.tensor(1 / workload.accumulation)
    for step in range(1, job.steps + 1):
        for left in reversed(range(workload.accumulation)):
            with unreduced(wrapped) if left else nullcontext():
                inputs, targets = next(batches)
                loss = workload.data.loss(wrapped(inputs), targets)
                torch.autograd.backward(loss, share)
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % LOG_EVERY == 0:
            losses.append(total.item() / (LOG_EVERY * workload.accumulation))
            total.zero_()
    if rank == 0:
        meter.write()


def read(job: Job, dataset: Dataset[Any]) -> Iterable[tuple[Tensor, ...]]:
    """This rank's microbatches, epoch after epoch."""
    if not isinstance(dataset, TensorDataset):
        order = [index.tolist() for index in microbatches(job, len(dataset))]  # type: ignore[arg-type]
        return DataLoader(dataset, batch_sampler=order, num_workers=job.workload.workers)
    tensors = dataset.tensors
    return (
        tuple(tensor.index_select(0, index) for tensor in tensors)
        for index in microbatches(job, len(dataset))
    )


def microbatches(job: Job, samples: int) -> Iterator[Tensor]:
    """This rank's indices of every forward pass, (N,): its stride of each global batch, in parts."""
    rank, world_size = place()
    size, step = job.workload.batch_per_rank * world_size, 0
    while True:
        generator = torch.Generator().manual_seed(step)
        order = torch.randperm(samples, generator=generator) if job.shuffle else torch.arange(samples)
        for start in range(0, samples - size + 1, size):
            if step == job.steps:
                return
            step += 1
            share = order[start + rank : start + size : world_size]
            yield from torch.split(share, job.workload.microbatch)


if __name__ == "__main__":
    train(job_of_this_process())
