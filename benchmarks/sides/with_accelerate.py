"""Accelerate: the plain loop, with its objects prepared by an Accelerator.

python -m benchmarks.sides.with_accelerate JOB      (also under torchrun)
"""

from __future__ import annotations

from itertools import count

from accelerate import Accelerator
from torch.utils.data import DataLoader

from benchmarks.job import LOG_EVERY, Job, job_of_this_process
from benchmarks.meter import Meter


def train(job: Job) -> None:
    workload = job.workload
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=workload.accumulation)
    bare = workload.make_model()
    bare_optimizer = workload.make_optimizer(bare)
    meter = Meter(bare_optimizer, job)
    plain = DataLoader(
        workload.data.make(),
        batch_size=workload.microbatch,
        shuffle=job.shuffle,
        num_workers=workload.workers,
        persistent_workers=workload.workers > 0,
        drop_last=True,
    )
    model, optimizer, loader = accelerator.prepare(bare, bare_optimizer, plain)
    step, losses = 0, []
    for epoch in count():
        loader.set_epoch(epoch)
        for inputs, targets in loader:
            step += 1
            with accelerator.accumulate(model):
                loss = workload.data.loss(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if step % (LOG_EVERY * workload.accumulation) == 0:
                losses.append(loss.item())
            if step == job.microsteps:
                break
        if step == job.microsteps:
            break
    if accelerator.is_main_process:
        meter.write()
    accelerator.end_training()


if __name__ == "__main__":
    train(job_of_this_process())
