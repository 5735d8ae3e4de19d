"""Two optimizer steps by shapes: whether they work, and the memory that the second one takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pipeline.engine.experiment import Experiment
from pipeline.engine.ledger import Ledger, convolution_scratch
from pipeline.engine.mismatch import Findings
from pipeline.engine.shapes import Observer, Operation, ShapeMode, tensors_in
from pipeline.engine.step_module import StepModule
from pipeline.engine.trail import Trail


@dataclass(frozen=True)
class Memory:
    """Bytes of tensors on one rank; what kernels, libraries and processes need besides is not in it."""

    weights: int
    """Parameters and buffers of model and objective."""
    gradients: int
    """With several ranks also where DDP joins them."""
    optimizer: int | None
    """The optimizer's state."""
    activations: int | None
    """The batch, what is kept for the backward pass, and results in between: the most at once in a step."""
    total: int | None
    """The most at once in a step after the first: less than the sum where not all is there at once."""


@dataclass
class RehearsedStep:
    """The steps of one rank; a second one, since the optimizer's state is there from then on."""

    experiment: Experiment
    world_size: int
    mode: ShapeMode
    trail: Trail
    findings: Findings
    optimizer: Optimizer | None = None
    memory: Memory | None = None
    unused: tuple[str, ...] = ()
    failed: bool = False
    """Whether the forward or backward pass did not end, for whatever reason."""
    batch_size: int = 0
    """Samples of the microbatch that went through; 0: none did."""

    def take(self, step_module: StepModule, batches: list[Any]) -> None:
        """Take the steps; what goes wrong is noted."""
        ledger = Ledger()
        own = [*step_module.parameters(), *step_module.buffers()]
        ledger.note(own)
        weights = ledger.alive
        ledger.note(tensors_in(batches))
        batch = ledger.alive - weights
        handles = [
            p.register_post_accumulate_grad_hook(ledger.add_gradient)  # type: ignore[no-untyped-call]
            for p in step_module.parameters()
            if p.requires_grad
        ]
        measured = bool(batches)
        for turn in range(2):
            ledger.mark()
            settled = ledger.alive
            if measured:
                measured = self._turn(step_module, batches, ledger, first=turn == 0)
                self.failed = not measured
        for handle in handles:
            handle.remove()
        beside = ledger.most_beside_gradients - settled + batch
        self._weigh(step_module, weights, beside if measured else None, ledger.most)

    def _turn(self, step_module: StepModule, batches: list[Any], ledger: Ledger, *, first: bool) -> bool:
        """One optimizer step; False where its forward or backward pass cannot be told."""

        def count(operation: Operation) -> None:
            ledger.note_operation(operation, convolution_scratch(operation))

        with self.mode.on(), Observer(count):
            if not all(self._gradients(step_module, batch) for batch in batches):
                return False
            if first:
                self.batch_size = _samples(batches[0])
                named = step_module.named_parameters()
                self.unused = tuple(
                    name.removeprefix("model.") for name, p in named if p.requires_grad and p.grad is None
                )
            self._update(step_module)
        for parameter in step_module.parameters():
            parameter.grad = None
        ledger.drop_gradients()
        return True

    def _gradients(self, step_module: StepModule, batch: Any) -> bool:
        dataset = self.experiment.datasets["train"]
        try:
            with self.trail.following(step_module.model):
                loss, _ = step_module(batch)
        except Exception as error:  # noqa: BLE001 -- a component may raise anything
            self.findings.note_forward(dataset, batch, error)
            return False
        try:
            torch.autograd.backward(loss, torch.ones_like(loss))
        except Exception as error:  # noqa: BLE001 -- likewise
            self.findings.note(self.experiment.objective, "gives a loss that has no gradient", error)
            return False
        return True

    def _update(self, step_module: StepModule) -> None:
        if self.optimizer is None:
            return
        clip = self.experiment.train.clip_grad_norm
        try:
            if clip is not None:
                nn.utils.clip_grad_norm_(step_module.parameters(), clip)
            self.optimizer.step()
        except Exception as error:  # noqa: BLE001 -- likewise
            self.findings.note(self.experiment.optimizer, "cannot take a step", error)

    def _weigh(self, step_module: StepModule, weights: int, activations: int | None, most: int) -> None:
        gradients = sum(p.nbytes for p in step_module.parameters() if p.requires_grad)
        state = self._state()
        if self.world_size == 1:
            total = most if activations is not None else None
        else:  # DDP's buckets are there all the time, and gradients are views of them, or besides
            gradients *= 1 if self.experiment.distributed.gradient_as_bucket_view else 2
            known = activations is not None and state is not None
            total = weights + gradients + (state or 0) + (activations or 0) if known else None
        self.memory = Memory(weights, gradients, state, activations, total)

    def _state(self) -> int | None:
        """Bytes of the optimizer's state; None without a step."""
        if self.optimizer is None or not self.optimizer.state:
            return 0 if self.optimizer is not None and self.batch_size else None
        ledger = Ledger()
        ledger.note(tensors_in(dict(self.optimizer.state)))
        return ledger.alive


def _samples(batch: Any) -> int:
    """The first dimension of a batch's first tensor."""
    first: Tensor | None = next(iter(tensors_in(batch)), None)
    return len(first) if first is not None and first.dim() else 0
