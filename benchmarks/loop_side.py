"""The best loop that a careful person writes by hand for one workload, and nothing else.

Batches are cut from tensors in memory by index tensors made once an epoch (``index_select``, which is
several times as fast as ``inputs[index]`` for wide rows); the loss is added up on
the device and read every 50 steps, as the engine does; DDP has its defaults.

    python -m benchmarks.loop_side WORKLOAD OUTPUT STEPS      (also under torchrun)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.parallel import DistributedDataParallel

from benchmarks.meter import WINDOW, Meter
from benchmarks.workloads import WORKLOADS, Workload, make_rows
from pipeline.components.models.convnet import ConvNet
from pipeline.components.models.mlp import MLP

MODELS: dict[str, type[nn.Module]] = {"mlp": MLP, "convnet": ConvNet}
THREADS = 1


def train(workload: Workload, output: Path) -> None:
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(THREADS)
    if world_size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = make_model(workload)
    wrapped = DistributedDataParallel(model) if world_size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=workload.learning_rate, momentum=0.9)
    meter = Meter(optimizer, workload.warm_steps)
    inputs, targets = make_rows(workload).tensors
    loss_of = mse_loss if workload.classes is None else cross_entropy
    total, losses = torch.zeros(()), []
    for step, index in enumerate(batches(workload, rank, world_size), 1):
        loss = loss_of(wrapped(inputs.index_select(0, index)), targets.index_select(0, index))
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.detach()
        if step % WINDOW == 0:
            losses.append(total.item() / WINDOW)
            total.zero_()
    if rank == 0:
        meter.write(output)
    if world_size > 1:
        dist.destroy_process_group()


def make_model(workload: Workload) -> nn.Module:
    arguments = dict(workload.model)
    return MODELS[arguments.pop("type")](**arguments)


def batches(workload: Workload, rank: int, world_size: int) -> Iterator[Tensor]:
    """This rank's indices of every step, (N,), epoch after epoch."""
    size, step = workload.batch_per_rank * world_size, 0
    while True:
        generator = torch.Generator().manual_seed(step)
        order = torch.randperm(workload.rows, generator=generator)
        for start in range(0, workload.rows - size + 1, size):
            if step == workload.total_steps:
                return
            step += 1
            yield order[start + rank : start + size : world_size]


if __name__ == "__main__":
    name, path, steps = sys.argv[1:]
    train(replace(WORKLOADS[name], steps=int(steps)), Path(path))
