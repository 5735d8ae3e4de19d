"""The part that all schedules share: a linear rise, then whatever follows."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def after_warmup(optimizer: Optimizer, warmup_steps: int, follow: Callable[[int], float]) -> LambdaLR:
    """A schedule in closed form of the step alone, so its saved state is plain numbers.

    Step s, from 0, has the factor (s + 1) / (warmup_steps + 1) while s < warmup_steps, so no step is
    lost on a rate of 0; from then on ``follow(s - warmup_steps)``.
    """

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / (warmup_steps + 1)
        return follow(step - warmup_steps)

    return LambdaLR(optimizer, factor)


def steps_after(warmup_steps: int, total_steps: int) -> int:
    """Steps that are left for what follows the warm-up, at least 1 so that they can be divided by.

    Raises:
        ValueError: if the warm-up is longer than the run.
    """
    if warmup_steps > total_steps:
        raise ValueError(
            f"warmup_steps = {warmup_steps} is longer than the run of {total_steps} steps; "
            "shorten the warm-up or train longer"
        )
    return max(1, total_steps - warmup_steps)
