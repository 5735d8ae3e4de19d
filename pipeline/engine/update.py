"""One optimizer step: forward and backward per microbatch, one reduction, clip, update.

The loss of every sample counts the same whatever rank or microbatch it fell in: the loss *sum* is
multiplied by W / (samples of the global batch) before backward, so that DDP's own average over the
ranks, overlapped with backward, gives the mean over the global batch and nothing is left to do.
(Dividing afterwards is not bit-equal to a mean loss for shares that are no power of two.)
A token-weighted loss is corrected after the reduction by samples / tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from pipeline.api.metric import sum_dtype
from pipeline.engine.group import Group
from pipeline.engine.share import Share
from pipeline.engine.step_module import to_device
from pipeline.engine.train_totals import TrainTotals
from pipeline.engine.unused import Unused
from pipeline.errors import ComponentError

Scaler = torch.amp.GradScaler


@dataclass
class Updater:
    """What an optimizer step needs, all of it built."""

    module: nn.Module
    """The step module, in DDP where there are several ranks."""
    optimizer: Optimizer
    scaler: Scaler | None
    group: Group
    device: torch.device
    clip_grad_norm: float | None
    totals: TrainTotals
    on_phase: Callable[[str], None]
    """Told what is at work ("dataset", "objective", ...) as it begins, for the report of a failure."""
    weighted: bool | None = None
    """Whether the objective gives weights of its own; None until its first batch."""
    _stepped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.optimizer.register_step_post_hook(self._note_step)
        self.learning_rate: float | Tensor = self.optimizer.param_groups[0]["lr"]
        """What the first group's last update was made with."""
        self._parameters = [p for p in self.module.parameters() if p.requires_grad]
        self._unused = Unused(self.module)
        self._last_scale = self.scaler.get_scale() if self.scaler is not None else 1.0
        self._scale: tuple[tuple[float, torch.dtype], Tensor] | None = None

    def step(self, share: Share) -> bool:
        """Take one optimizer step on this rank's share; False where the scaler skipped it."""
        weight = self._gradients(share)
        self._look_for_unused()
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if weight is not None:
            self._correct(share.window_size, weight)
        if self.clip_grad_norm is not None:
            norm = nn.utils.clip_grad_norm_(self._parameters, self.clip_grad_norm)
            self.totals.add_norm(norm)
        self.on_phase("optimizer")
        self.learning_rate = self.optimizer.param_groups[0]["lr"]
        stepped = self._apply()
        for parameter in self._parameters:  # as zero_grad does, at a fraction of its cost
            parameter.grad = None
        return stepped

    def _gradients(self, share: Share) -> Tensor | None:
        """Leave the all-reduced gradients; give the global weight where the objective counts its own."""
        scale = self.group.world_size / share.window_size
        weights: list[Tensor] = []
        for size in share.sizes[:-1]:
            with self._no_sync():
                self._backward(self._forward(share, size, weights), scale)
        if len(share.sizes) > 1:
            self._unused.before_last()
        # The last pass reduces; a rank without samples takes part with a zero.
        loss = self._forward(share, share.sizes[-1], weights) if share.sizes else self._forward_nothing(share)
        total = pending = None
        if self.weighted:  # on its way while backward runs, and not waited for before
            total = torch.stack(weights).sum() if weights else self._zero_weight()
            pending = self.group.all_reduce_async(total)
        self._backward(loss, scale)
        if pending is not None:
            pending.wait()
        return total

    def _forward(self, share: Share, size: int, weights: list[Tensor]) -> Tensor:
        """The loss sum of the next microbatch; its weight is added to ``weights`` where it has one."""
        self.on_phase("dataset.train")
        batch = to_device(next(share.microbatches), self.device)
        self.on_phase("objective")
        loss: Tensor
        try:
            loss, weight = self.module(batch)
        except RuntimeError as error:
            if explained := self._unused.explained(error):
                self.on_phase("model")
                raise explained from error
            raise
        self._agree_on_weights(share, weight is not None)
        if weight is None:
            self.totals.add(loss, size)
        else:
            weights.append(self._zero_weight() + weight)
            self.totals.add(loss, weights[-1])
        self.on_phase("backward")
        return loss

    def _forward_nothing(self, share: Share) -> Tensor:
        self.on_phase("objective")
        loss: Tensor = self.module(None)[0]
        self._agree_on_weights(share, self.weighted)
        return loss

    def _agree_on_weights(self, share: Share, weighted: bool | None) -> None:
        """In the first batch take the word of a rank with samples, since one without cannot know."""
        if self.weighted is None:
            self.weighted = bool(self.group.broadcast(weighted, source=share.first_rank))
        if weighted is not None and weighted != self.weighted:
            raise ComponentError(
                "the objective gave a weight for some batches and None for others; expected always the same"
            )

    def _zero_weight(self) -> Tensor:
        return torch.zeros((), dtype=sum_dtype(self.device), device=self.device)

    def _backward(self, loss: Tensor, scale: float) -> None:
        """Backward of ``loss * scale``; given as the loss's own gradient, the factor costs no operation."""
        if self.scaler is not None:
            torch.autograd.backward(self.scaler.scale(loss * scale))
            return
        if self._scale is None or self._scale[0] != (scale, loss.dtype):
            self._scale = (scale, loss.dtype), torch.full_like(loss, scale)
        torch.autograd.backward(loss, self._scale[1])

    def _no_sync(self) -> AbstractContextManager[None]:
        if isinstance(self.module, DistributedDataParallel):
            return self.module.no_sync()
        return nullcontext()

    def _correct(self, samples: int, weight: Tensor) -> None:
        """From a mean over samples to one over tokens; no token at all gives no gradient."""
        factor = torch.where(weight > 0, samples / weight, torch.zeros_like(weight))
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.dtype))

    def _apply(self) -> bool:
        if self.scaler is None:
            self.optimizer.step()
            return True
        self._stepped = False
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if getattr(self.optimizer, "_step_supports_amp_scaling", False):  # a fused one skips in its kernel
            scale, self._last_scale = self._last_scale, self.scaler.get_scale()
            return self._last_scale >= scale
        return self._stepped

    def _look_for_unused(self) -> None:
        """In every step: one rank that leaves a parameter out would not join the others' reduction of it."""
        error = self._unused.found()
        if error is not None:
            self.on_phase("model")
            raise error

    def _note_step(self, *_: Any) -> None:
        self._stepped = True
