"""Linear warm-up, then half a cosine."""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge, Le
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pipeline.components.schedulers.warmup import after_warmup, steps_after


def warmup_cosine(
    optimizer: Optimizer,
    *,
    total_steps: int,
    warmup_steps: Annotated[int, Ge(0)] = 0,
    min_ratio: Annotated[float, Ge(0), Le(1)] = 0.0,
) -> LRScheduler:
    """Rise linearly to the optimizer's lr, then fall along half a cosine until the end of the run.

    Args:
        total_steps: steps of the whole run.
        warmup_steps: steps of the rise.
        min_ratio: where the cosine ends, as a share of lr.

    Raises:
        ValueError: if the warm-up is longer than the run.
    """
    decay_steps = steps_after(warmup_steps, total_steps)

    def follow(step: int) -> float:
        progress = min(1.0, step / decay_steps)
        return min_ratio + (1 - min_ratio) * (1 + math.cos(math.pi * progress)) / 2

    return after_warmup(optimizer, warmup_steps, follow)
