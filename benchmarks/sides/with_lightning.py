"""Lightning: a LightningModule, and a Trainer without progress bar, summary and checkpoints.

python -m benchmarks.sides.with_lightning JOB      (also under torchrun)
"""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.job import LOG_EVERY, Job, job_of_this_process, place
from benchmarks.meter import Meter


class Module(lightning.LightningModule):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.model = job.workload.make_model()

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        inputs, targets = batch
        loss = self.job.workload.data.loss(self.model(inputs), targets)
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> Optimizer:
        optimizer = self.job.workload.make_optimizer(self.model)
        self.meter = Meter(optimizer, self.job)
        return optimizer


def train(job: Job) -> None:
    workload = job.workload
    rank, world_size = place()
    dataset = workload.data.make()
    # By itself it shuffles what several ranks train on, whatever the loader says.
    in_order = world_size > 1 and not job.shuffle
    loader = DataLoader(
        dataset,
        batch_size=workload.microbatch,
        shuffle=job.shuffle,
        sampler=DistributedSampler(dataset, world_size, rank, shuffle=False) if in_order else None,
        num_workers=workload.workers,
        persistent_workers=workload.workers > 0,
        drop_last=True,
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=world_size,
        use_distributed_sampler=not in_order,
        strategy="ddp" if world_size > 1 else "auto",
        max_steps=job.steps,
        accumulate_grad_batches=workload.accumulation,
        log_every_n_steps=LOG_EVERY,
        logger=CSVLogger(job.folder),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Module(job)
    trainer.fit(module, loader)
    if rank == 0:
        module.meter.write()


if __name__ == "__main__":
    train(job_of_this_process())
