"""The loop of torch's own tutorials: DataLoader, DistributedSampler, and the loss read in every step.

python -m benchmarks.sides.tutorial_loop JOB      (also under torchrun)
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

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
    dataset = workload.data.make()
    sampler: DistributedSampler[Any] | None = (
        DistributedSampler(dataset, shuffle=job.shuffle) if world_size > 1 else None
    )
    loader = DataLoader(
        dataset,
        batch_size=workload.microbatch,
        shuffle=job.shuffle and sampler is None,
        sampler=sampler,
        num_workers=workload.workers,
        persistent_workers=workload.workers > 0,
        drop_last=True,
    )
    step, running, losses = 0, 0.0, []
    for epoch in count():
        if sampler is not None:
            sampler.set_epoch(epoch)
        for inputs, targets in loader:
            step += 1
            last = step % workload.accumulation == 0
            with nullcontext() if last else unreduced(wrapped):
                loss = workload.data.loss(wrapped(inputs), targets) / workload.accumulation
                loss.backward()  # type: ignore[no-untyped-call]
            running += loss.item()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            if step % (LOG_EVERY * workload.accumulation) == 0:
                losses.append(running / LOG_EVERY)
                running = 0.0
            if step == job.microsteps:
                break
        if step == job.microsteps:
            break
    if rank == 0:
        meter.write()


if __name__ == "__main__":
    train(job_of_this_process())
