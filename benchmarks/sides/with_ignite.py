"""PyTorch Ignite: its supervised trainer, with its helpers for model, optimizer and loader.

python -m benchmarks.sides.with_ignite JOB      (also under torchrun)
"""

from __future__ import annotations

import ignite.distributed as idist
from ignite.engine import Engine, Events, create_supervised_trainer
from torch.utils.data import DistributedSampler

from benchmarks.job import LOG_EVERY, Job, job_of_this_process, place
from benchmarks.meter import Meter


def train(job: Job) -> None:
    workload = job.workload
    rank, world_size = place()
    loader = idist.auto_dataloader(
        workload.data.make(),
        batch_size=workload.microbatch * world_size,
        num_workers=workload.workers * world_size,
        persistent_workers=workload.workers > 0,
        **_order(job, world_size),
        drop_last=True,
    )
    model = workload.make_model()
    optimizer = idist.auto_optim(workload.make_optimizer(model))
    meter = Meter(optimizer, job)
    trainer = create_supervised_trainer(
        idist.auto_model(model),
        optimizer,
        workload.data.loss,
        gradient_accumulation_steps=workload.accumulation,
    )
    losses = []

    @trainer.on(Events.EPOCH_STARTED)
    def reorder(engine: Engine) -> None:
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(engine.state.epoch)

    @trainer.on(Events.ITERATION_COMPLETED(every=LOG_EVERY * workload.accumulation))
    def log(engine: Engine) -> None:
        losses.append(engine.state.output)

    trainer.run(loader, max_iters=job.microsteps)
    if rank == 0:
        meter.write()


def _order(job: Job, world_size: int) -> dict[str, object]:
    if job.shuffle or world_size == 1:
        return {"shuffle": job.shuffle}
    return {"sampler": DistributedSampler(job.workload.data.make(), shuffle=False)}


def main() -> None:
    job = job_of_this_process()
    with idist.Parallel(backend="gloo" if place()[1] > 1 else None) as parallel:
        parallel.run(lambda _: train(job))


if __name__ == "__main__":
    main()
