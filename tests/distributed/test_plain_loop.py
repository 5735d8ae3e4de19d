"""The plain loop, the oracle of other tests, is itself right."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext

import pytest
import torch

import plain_ddp_loop
from harness import process_group
from pipeline import EpochSampler

SAMPLES = 24


def weights_after_two_epochs(ddp_settings: dict[str, object]) -> list[torch.Tensor]:
    """Parameters after every step, in float64."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(3)
    data = (torch.rand(SAMPLES, 5, dtype=torch.float64), torch.randint(4, (SAMPLES,)))
    model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4)).double()
    sampler = EpochSampler(SAMPLES, seed=1, rank=rank, world_size=world_size, global_batch_size=12)
    steps: list[torch.Tensor] = []

    def keep(bare: torch.nn.Module) -> None:
        steps.append(torch.nn.utils.parameters_to_vector(bare.parameters()).detach())

    with process_group() if world_size > 1 else nullcontext():
        plain_ddp_loop.train(
            model,
            plain_ddp_loop.classification_loss,
            data,
            plain_ddp_loop.epochs_of(sampler, 2),
            lambda parameters: torch.optim.SGD(parameters, lr=0.5, momentum=0.9),
            clip_grad_norm=0.1,
            after_step=keep,
            **(ddp_settings if world_size > 1 else {}),
        )
    return steps


@pytest.mark.parametrize("ddp_settings", [{}, {"bucket_cap_mb": 0.0001, "gradient_as_bucket_view": True}])
def test_any_number_of_ranks_with_even_shares_takes_the_same_steps(ranks, ddp_settings):
    (alone,) = ranks(1, weights_after_two_epochs, ddp_settings)
    assert len(alone) == 4
    for world_size in (2, 3):
        for steps in ranks(world_size, weights_after_two_epochs, ddp_settings):
            torch.testing.assert_close(steps, alone, rtol=0, atol=1e-14)


def trained_digits() -> None:
    plain_ddp_loop.main()


def test_the_example_learns_the_digits_with_two_ranks(spawn):
    job = spawn(2, trained_digits)
    assert job.wait() == [0, 0]
    match = re.fullmatch(r"accuracy (0\.\d{4})\n", job.stdout(0))
    assert match is not None and float(match[1]) > 0.95
    assert job.stdout(1) == ""
