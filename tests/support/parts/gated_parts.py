"""Hooks that forget on which ranks they run; a local file, as a user would have one."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed import all_reduce, new_group
from torch.nn.parallel import DistributedDataParallel

from pipeline import Hook, register

CALLS = {
    "all_reduce": lambda: all_reduce(torch.ones(1)),
    "barrier": dist.barrier,
    "all_gather_object": lambda: dist.all_gather_object([None, None], "a word"),
    "broadcast_object_list": lambda: dist.broadcast_object_list(["a word"], src=0),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.ones(2), torch.ones(1)),
    "gather": lambda: dist.gather(torch.ones(1), [torch.ones(1), torch.ones(1)]),
    "reduce": lambda: dist.reduce(torch.ones(1), dst=0),
    "another group": lambda: all_reduce(torch.ones(1), group=GROUPS[0]),
    "new_group": lambda: dist.new_group([0, 1]),
    "new_group, imported before": lambda: new_group([0, 1]),
    "functional all_reduce": lambda: functional.all_reduce(torch.ones(1), "sum", dist.group.WORLD),
    "DDP": lambda: DistributedDataParallel(torch.nn.Linear(2, 2)),
    "backward of DDP": lambda: WRAPPED[0](torch.ones(1, 2)).sum().backward(),
}
GROUPS = []
WRAPPED = []


@register("hook", "forgetful")
class Forgetful(Hook):
    """Starts a collective in one event, on rank 0 alone."""

    def __init__(self, call: str = "all_reduce", event: str = "on_step_end") -> None:
        self.call = call
        self.event = event

    def _maybe(self, event):
        if event == self.event:
            CALLS[self.call]()

    def on_run_start(self, run):
        self._maybe("on_run_start")

    def on_epoch_start(self, run):
        self._maybe("on_epoch_start")

    def on_step_end(self, run):
        self._maybe("on_step_end")

    def on_evaluate_end(self, run):
        self._maybe("on_evaluate_end")

    def on_epoch_end(self, run):
        self._maybe("on_epoch_end")

    def on_run_end(self, run):
        self._maybe("on_run_end")

    def state_dict(self):
        self._maybe("state_dict")
        return {}


@register("hook", "grouped")
class Grouped(Hook):
    """Makes a group and a DDP of its own and uses them, which a hook of all ranks may."""

    ranks = "all"

    def on_run_start(self, run):
        GROUPS.append(dist.new_group([0, 1]))
        WRAPPED.append(DistributedDataParallel(torch.nn.Linear(2, 2)))

    def on_step_end(self, run):
        total = functional.all_reduce(torch.ones(1), "sum", GROUPS[0])
        WRAPPED[0](torch.ones(1, 2)).sum().backward()
        run.log("ranks", total)


@register("hook", "sampling")
class Sampling(Hook):
    """Calls the model, forward and backward, on rank 0 alone."""

    def on_step_end(self, run):
        output = run.model(torch.ones(2, 8))
        run.log("sampled", torch.autograd.grad(output.sum(), next(run.model.parameters()))[0].sum())


@register("hook", "log_steps")
class LogSteps(Hook):
    """Logs the step and the rank, on all ranks and at every step."""

    ranks = "all"

    def on_step_end(self, run):
        run.log("step and rank", float(run.step + run.world.rank))


@register("hook", "logging")
class Logging(Hook):
    """Logs many values on all ranks, and some on one rank only; by no means in one order."""

    ranks = "all"

    def __init__(self, names: int, only: int = -1) -> None:
        self.names = names
        self.only = only

    def on_step_end(self, run):
        names = [f"value-{number}" for number in range(self.names)]
        for number, name in sorted(enumerate(names), reverse=bool(run.world.rank)):
            run.log(name, number + run.world.rank)
        if run.world.rank == self.only:
            run.log("mine alone", 1.0)
