"""Promise 6: weights load strictly into the bare model in plain torch, whatever wrapped it in training."""

from __future__ import annotations

import torch
from safetensors.torch import load_file
from torch import nn

from runs_of import BASE, PARTS, only_run, state_of, write_config

COMPONENTS = [*BASE["components"], str(PARTS.with_name("saving.py"))]


class Bare(nn.Module):
    """The hook's model once more, in plain torch."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 3)


def ran(command, tmp_path, config, world_size=2, *options, ends=0):
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs", *options])
    assert job.wait(timeout=300) == [ends] * world_size, job.report()
    return job


def configured(tmp_path, **changes):
    hooks = {"ema": {"decay": 0.5}, "checkpoint": {"every": "1 epoch"}}
    return write_config(tmp_path, components=COMPONENTS, hooks=hooks, **changes)


def test_the_file_loads_strictly_in_plain_torch(command, tmp_path, count):
    """CKP-15: alone, in DDP, compiled; tied weights under each name; the averages likewise; and back."""
    for world_size, compiled in [(1, False), (2, False), (2, True)][: count(2, 3)]:
        here = tmp_path / f"{world_size}-{compiled}"
        here.mkdir()
        config = configured(here, model={"type": "tied"}, train__compile=compiled, train__epochs=1)
        ran(command, here, config, world_size)
        folder = only_run(here / "runs")
        for file in (folder / "checkpoints/step-000005/model.safetensors", folder / "ema.safetensors"):
            tensors = load_file(file)
            bare = Bare()
            bare.load_state_dict(tensors, strict=True)
            assert bare.tied.weight is bare.first.weight
            assert torch.equal(tensors["tied.weight"], tensors["first.weight"])
        weights = f"model.weights={folder / 'checkpoints/step-000005/model.safetensors'}"
        ran(command, here, config, 3 - world_size, "--set", weights, "--name", "back")
        wrong = ["--set", weights, "--set", "model.type=net", "--name", "wrong"]
        job = ran(command, here, config, 1, *wrong, ends=1)
        assert "does not fit the model" in job.stderr(0) and "unexpected: last.weight" in job.stderr(0)
        assert "missing: second.weight" in job.stderr(0) and "shape: first.weight is (8, 8)" in job.stderr(0)


def test_extra_state_is_kept_beside_the_weights(command, tmp_path):
    """get_extra_state: plain data, resumed exactly, and no hindrance to the weights alone."""
    config = configured(tmp_path, model={"type": "told_apart"})
    ran(command, tmp_path, config, 2)
    folder = only_run(tmp_path / "runs")
    assert state_of(folder)["model_extra"] == {"_extra_state": {"calls": 15}}
    ran(command, tmp_path, config, 2, "--resume", "--set", "train.epochs=4")
    assert state_of(folder)["model_extra"] == {"_extra_state": {"calls": 20}}
    file = folder / "checkpoints/step-000020/model.safetensors"
    Bare().load_state_dict(load_file(file), strict=True)
    ran(command, tmp_path, config, 1, "--set", f"model.weights={file}", "--name", "from-weights")


def test_extra_state_that_cannot_be_saved_is_refused_before_training(command, tmp_path):
    config = configured(tmp_path, model={"type": "told_apart", "plain": False})
    job = ran(command, tmp_path, config, 2, ends=1)
    assert "the state of model holds a builtins.object at _extra_state.calls" in job.stderr(0)
    assert "after step 0" in job.stderr(0)
