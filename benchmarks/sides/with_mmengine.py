"""MMEngine: a BaseModel and a Runner that counts iterations, without checkpoints.

python -m benchmarks.sides.with_mmengine JOB      (also under torchrun)
"""

from __future__ import annotations

import torch.distributed as dist
from mmengine.model import BaseModel
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from torch import Tensor

from benchmarks.job import LOG_EVERY, Job, job_of_this_process, place
from benchmarks.meter import Meter


class WithLoss(BaseModel):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.model = job.workload.make_model()
        self.loss = job.workload.data.loss

    def forward(self, inputs: Tensor, targets: Tensor, mode: str = "tensor") -> dict[str, Tensor]:
        if mode != "loss":
            raise ValueError(f"a model that is only trained; got mode {mode!r}")
        return {"loss": self.loss(self.model(inputs), targets)}


def train(job: Job) -> None:
    workload = job.workload
    rank, world_size = place()
    if world_size > 1:  # by itself it takes a CUDA device for every rank, with gloo too
        dist.init_process_group("gloo")
    model = WithLoss(job)
    optimizer = workload.make_optimizer(model)
    meter = Meter(optimizer, job)
    runner = Runner(
        model,
        work_dir=job.folder,
        train_dataloader={
            "dataset": workload.data.make(),
            "batch_size": workload.microbatch,
            "num_workers": workload.workers,
            "persistent_workers": workload.workers > 0,
            "sampler": {"type": "InfiniteSampler", "shuffle": job.shuffle},
            "collate_fn": {"type": "default_collate"},
        },
        train_cfg={"by_epoch": False, "max_iters": job.microsteps},
        optim_wrapper=OptimWrapper(optimizer, accumulative_counts=workload.accumulation),
        default_hooks={
            "logger": {"type": "LoggerHook", "interval": LOG_EVERY * workload.accumulation},
            "checkpoint": None,
        },
        # By itself it gives DDP the device 0, which models on a CPU do not have.
        cfg={"model_wrapper_cfg": {"type": "MMDistributedDataParallel", "device_ids": None}},
        launcher="pytorch" if world_size > 1 else "none",
    )
    runner.train()
    if rank == 0:
        meter.write()


if __name__ == "__main__":
    train(job_of_this_process())
