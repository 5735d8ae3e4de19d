"""Promise 1: with even shares, bit for bit the plain hand-written DDP loop fed the same batches."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
import torch

from harness import process_group
from runs_of import PARTS, only_run, weights_of, write_config

LOOP = Path(__file__).parents[2] / "examples" / "plain_ddp_loop.py"
SEED, LENGTH = 11, 480


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain_loop(world_size, global_batch, steps, options):
    """The parameters of the plain loop after each of ``steps``, by the model's names."""
    loop, parts = load(LOOP), load(PARTS)
    from pipeline import EpochSampler
    from pipeline.engine.random_state import seed_all

    torch.use_deterministic_algorithms(True)
    rank = int(os.environ["RANK"])
    seed_all(SEED, "build", "model")  # the engine builds every component under a seed of its own
    model = parts.Net(width=64)
    points = parts.Points(LENGTH)
    sampler = EpochSampler(
        LENGTH, seed=SEED, rank=rank, world_size=world_size, global_batch_size=global_batch
    )
    after: dict[int, dict[str, torch.Tensor]] = {}
    done = 0

    def keep(model):
        nonlocal done
        done += 1
        if done in steps:
            after[done] = {name: value.clone() for name, value in model.state_dict().items()}

    epochs = -(-max(steps) // len(sampler))
    clip = options.pop("clip_grad_norm", None)

    def train():
        loop.train(
            model,
            loop.classification_loss,
            (points.inputs, points.labels),
            loop.epochs_of(sampler, epochs),
            lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
            clip_grad_norm=clip,
            after_step=keep,
            **options,
        )

    if world_size == 1:
        train()
    else:
        with process_group():
            train()
    return after


@pytest.mark.parametrize(
    ("world_size", "share", "options"),
    [
        pytest.param(1, 24, {}, id="alone"),
        pytest.param(2, 16, {}, id="2x16"),
        pytest.param(2, 24, {}, id="2x24"),
        pytest.param(3, 16, {}, id="3x16"),
        pytest.param(3, 24, {}, id="3x24"),
        pytest.param(4, 16, {}, id="4x16"),
        pytest.param(4, 24, {}, id="4x24"),
        pytest.param(3, 40, {"clip_grad_norm": 0.1}, id="3x40, clipped"),
        pytest.param(2, 24, {"gradient_as_bucket_view": False, "static_graph": True}, id="other settings"),
        pytest.param(2, 24, {"find_unused_parameters": True, "bucket_cap_mb": 0.001}, id="small buckets"),
    ],
)
def test_even_shares_give_the_bits_of_the_plain_loop(
    command, ranks, tmp_path, count, world_size, share, options
):
    """The same parameters from the first steps to the 200th, for shares that are powers of two and not."""
    last = count(20, 200)
    steps = [last // 4, last // 2, 3 * last // 4, last]
    clip = {"train__clip_grad_norm": options["clip_grad_norm"]} if "clip_grad_norm" in options else {}
    ddp = {key: value for key, value in options.items() if key != "clip_grad_norm"}
    config = write_config(
        tmp_path,
        model={"type": "net", "width": 64},
        dataset={"train": {"type": "points", "length": LENGTH}},
        metrics={},
        optimizer={"type": "adamw", "lr": 0.01},
        train={"steps": last, "global_batch_size": share * world_size, "log_every": "never"},
        distributed={"threads": 1, **ddp},
        hooks={"checkpoint": {"every": f"{last // 4} steps", "keep_last": 4}},
        **clip,
    )
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    if world_size > 1:  # where the engine's defaults differ from torch's
        options = {"gradient_as_bucket_view": True, **options}
    plain = ranks(world_size, plain_loop, world_size, share * world_size, steps, options)
    for step in steps:
        engine = weights_of(only_run(tmp_path / "runs"), f"step-{step:06d}")
        for name, value in plain[0][step].items():
            assert torch.equal(engine[name], value), f"step {step}: {name}"
