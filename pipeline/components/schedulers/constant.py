"""A constant learning rate, after an optional warm-up."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pipeline.components.schedulers.warmup import after_warmup


def constant(optimizer: Optimizer, *, warmup_steps: Annotated[int, Ge(0)] = 0) -> LRScheduler:
    """Rise linearly to the optimizer's lr, then stay there.

    It is not told the length of the run, so a run with it can be made longer at any time.

    Args:
        warmup_steps: steps of the rise.
    """
    return after_warmup(optimizer, warmup_steps, lambda _step: 1.0)
