"""The built-in schedules: their curves, their exact resume, and a warm-up that does not fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from pipeline.components.schedulers.constant import constant
from pipeline.components.schedulers.warmup_cosine import warmup_cosine
from pipeline.components.schedulers.warmup_linear import warmup_linear

SCHEDULES: list[Callable[[torch.optim.Optimizer], Any]] = [
    lambda optimizer: constant(optimizer, warmup_steps=4),
    lambda optimizer: warmup_cosine(optimizer, total_steps=20, warmup_steps=4, min_ratio=0.1),
    lambda optimizer: warmup_linear(optimizer, total_steps=20, warmup_steps=4, min_ratio=0.1),
]


def make_optimizer() -> torch.optim.Optimizer:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    return torch.optim.SGD(
        [{"params": first.parameters(), "lr": 2.0}, {"params": second.parameters()}], lr=1.0
    )


def play(optimizer: torch.optim.Optimizer, scheduler: Any, steps: int) -> list[float]:
    """The first group's rate at each step."""
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        assert optimizer.param_groups[0]["lr"] == 2 * optimizer.param_groups[1]["lr"]
        optimizer.step()
        scheduler.step()
    return rates


def test_curves() -> None:
    rise = [2 * share for share in (0.2, 0.4, 0.6, 0.8, 1.0)]
    curves = []
    for schedule in SCHEDULES:
        optimizer = make_optimizer()
        curves.append(play(optimizer, schedule(optimizer), 24))
        assert curves[-1][:5] == pytest.approx(rise)
    flat, cosine, linear = curves
    assert flat[4:] == [2.0] * 20
    assert [cosine[12], linear[12]] == pytest.approx([2 * 0.55] * 2)  # half way
    assert cosine[8] == pytest.approx(2 * (0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2))
    assert linear[8] == pytest.approx(2 * 0.775)
    assert cosine[20:] == linear[20:] == [0.2] * 4  # past the end it stays


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_resume_is_exact_from_plain_data(schedule: Callable[[torch.optim.Optimizer], Any]) -> None:
    optimizer = make_optimizer()
    scheduler = schedule(optimizer)
    play(optimizer, scheduler, 7)
    saved = json.loads(json.dumps(scheduler.state_dict()))
    optimizer_state = optimizer.state_dict()
    expected = play(optimizer, scheduler, 10)
    resumed = make_optimizer()
    resumed_scheduler = schedule(resumed)
    resumed.load_state_dict(optimizer_state)
    resumed_scheduler.load_state_dict(saved)
    assert play(resumed, resumed_scheduler, 10) == expected


@pytest.mark.parametrize("schedule", [warmup_cosine, warmup_linear])
def test_the_warmup_must_fit(schedule: Any) -> None:
    with pytest.raises(ValueError, match="warmup_steps = 11 is longer than the run of 10 steps"):
        schedule(make_optimizer(), total_steps=10, warmup_steps=11)
    optimizer = make_optimizer()
    assert play(optimizer, schedule(optimizer, total_steps=3, warmup_steps=3), 3) == pytest.approx(
        [0.5, 1, 1.5]
    )
