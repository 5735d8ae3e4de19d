"""The memory that ``check`` tells is what a real step takes, as torch.profiler counts it."""

from __future__ import annotations

import json

import pytest

import pipeline
from runs_of import PARTS, only_run, write_config

PROBE = PARTS.with_name("memory_probe.py")
MLP = {
    "model": {"type": "mlp", "in_features": 512, "hidden": [1500, 1500], "out_features": 512},
    "optimizer": {"type": "adamw"},
    "dataset": {"train": {"type": "random", "length": 192, "input_shape": [512], "classes": 512}},
    "objective": {"type": "cross_entropy"},
    "train": {"steps": 3, "global_batch_size": 64},
}
WIDE = MLP | {
    "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9},
    "dataset": {"train": {"type": "random", "length": 12288, "input_shape": [512], "classes": 512}},
    "train": {"steps": 3, "global_batch_size": 4096, "max_microbatch_size": 2048, "clip_grad_norm": 1.0},
}
CONVNET = {
    "model": {"type": "convnet", "in_channels": 3, "channels": [64, 64], "num_classes": 10},
    "optimizer": {"type": "sgd", "lr": 0.1},
    "dataset": {"train": {"type": "random", "length": 144, "input_shape": [3, 32, 32], "classes": 10}},
    "objective": {"type": "cross_entropy"},
    "train": {"steps": 3, "global_batch_size": 48},
}
TRANSFORMER = {
    "model": {"type": "char_transformer", "vocab_size": 200, "width": 128, "depth": 2, "dropout": 0.1},
    "optimizer": {"type": "adamw"},
    "objective": {"type": "language_modelling"},
    "train": {"steps": 3, "global_batch_size": 16},
}


def text(folder):
    """A text for the transformer, of 48 windows at the least."""
    path = folder / "text.txt"
    path.write_text("".join(chr(33 + (i * i) % 90) for i in range(128 * 60)))
    return {"dataset": {"train": {"type": "text", "path": str(path), "context": 128}}}


def config_of(folder, parts, probed_step):
    return write_config(
        folder,
        **{"dataset": {}, "metrics": {}, **parts, "components": [str(PARTS), str(PROBE)]},
        hooks={"memory_probe": {"step": probed_step}},
    )


@pytest.mark.parametrize(
    ("world_size", "parts"),
    [(1, MLP), (1, WIDE), (1, CONVNET), (1, TRANSFORMER), (2, MLP), (2, WIDE)],
    ids=["mlp", "wide mlp", "convnet", "transformer", "mlp on 2 ranks", "wide mlp on 2 ranks"],
)
def test_the_memory_of_a_rank_is_within_15_percent_of_a_real_step(world_size, parts, command, tmp_path):
    parts = parts if "dataset" in parts else {**parts, **text(tmp_path)}
    probed = 2 if world_size == 1 else 3  # DDP makes its buckets anew in the second
    config = config_of(tmp_path, parts, probed)
    memory = pipeline.check(config, world_size=world_size).rehearsal.memory
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    real = json.loads((only_run(tmp_path / "runs") / "memory.json").read_text())
    buckets = memory.gradients if world_size > 1 else 0
    most = real["weights"] + real["optimizer"] + buckets + real["step"]
    assert most > 50e6
    assert memory.total == pytest.approx(most, rel=0.15)
    assert (memory.weights, memory.optimizer) == (real["weights"], pytest.approx(real["optimizer"], rel=0.01))
