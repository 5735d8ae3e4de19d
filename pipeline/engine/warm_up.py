"""Bringing DDP into the layout of an uninterrupted run.

DDP rebuilds its buckets after its first backward, by the order in which gradients became ready; that
changes the order of the sums where there are three ranks or more. A resumed run therefore first
does a backward whose gradients it throws away.
"""

from __future__ import annotations

import torch
from torch.nn.parallel import DistributedDataParallel

from pipeline.engine.assembly import Assembly
from pipeline.engine.buffers import load_buffers
from pipeline.engine.position import Position
from pipeline.engine.step_module import to_device
from pipeline.engine.world import World


def warm_up(assembly: Assembly, position: Position, world: World) -> None:
    """Backward passes of weight 0; parameters and buffers stay, the random states do not."""
    if not isinstance(assembly.module, DistributedDataParallel) or not position.step:
        return
    buffers = list(assembly.step_module.buffers())
    before = [buffer.detach().clone() for buffer in buffers]
    epoch, step = position.epoch, position.step_in_epoch
    if position.epoch_ended:
        epoch, step = epoch + 1, 0
    batch = to_device(assembly.data.train.first_microbatch(epoch, step), world.device)
    for _ in range(2 if assembly.experiment.distributed.static_graph else 1):
        loss = assembly.module(batch)[0]
        torch.autograd.backward(loss * 0.0)
    assembly.module.zero_grad(set_to_none=True)
    load_buffers(buffers, before)
