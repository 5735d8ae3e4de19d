"""Batch norm over ranks: statistics of their own in training, one value where it is looked at."""

from __future__ import annotations

import json

import pytest
import torch

from pipeline.api.settings import TrainSettings
from pipeline.engine.sync_batchnorm import require_paired, unpaired
from pipeline.errors import RunError
from runs_of import PARTS, only_run, rows_of, weights_of, write_config

MORE_PARTS = [str(PARTS), str(PARTS.with_name("statistics_parts.py"))]
OLDER_DDP = str(PARTS.with_name("older_ddp.py"))


def config_of(folder, **changes):
    defaults = {
        "components": MORE_PARTS,
        "model": {"type": "one_norm"},
        "dataset": {"train": {"type": "apart", "length": 32}, "eval": {"type": "apart", "length": 9}},
        "objective": {"type": "mse"},
        "metrics": {},
        "sampler": {"type": "sequential"},
        "train": {"epochs": 1, "global_batch_size": 8},
        "hooks": {"statistics": {}, "checkpoint": {"every": "1 epoch"}},
    }
    return write_config(folder, **defaults | changes)


@pytest.mark.parametrize(("rule", "ddp"), [("rank0", []), ("mean", [OLDER_DDP])])
def test_the_logged_score_is_that_of_the_saved_model(command, tmp_path, rule, ddp):
    """ACC-06: ranks whose data have means 0 and 10, and whose statistics are drawn apart when built."""
    config = config_of(tmp_path, components=[*MORE_PARTS, *ddp], distributed__buffers=rule)
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0, 0], job.report()
    folder = only_run(tmp_path / "runs")
    assert f'buffers = "{rule}"' in (folder / "config.toml").read_text()

    job = command(1, ["evaluate", folder, "--checkpoint", "last", "--json"], launcher=False)
    assert job.wait() == [0], job.report()
    (logged,) = [row["eval/loss"] for row in rows_of(folder) if "eval/loss" in row]
    assert json.loads(job.stdout(0))["metrics"]["eval/loss"] == pytest.approx(logged, abs=1e-6)

    ranks = [json.loads((folder / f"statistics-{rank}.json").read_text()) for rank in (0, 1)]
    assert ranks[0]["run_start"] == ranks[1]["run_start"]  # though each rank drew its own
    first, second = ranks[0]["step_end"], ranks[1]["step_end"]
    assert second - first > 3  # in training each rank sees its own data
    expected = first if rule == "rank0" else (first + second) / 2
    assert weights_of(folder)["norm.running_mean"].item() == pytest.approx(expected, abs=1e-6)
    assert ranks[0]["evaluate_end"] == first and ranks[1]["evaluate_end"] == second  # and goes on with it


def test_joining_them_needs_cuda_and_as_many_microbatches(command, tmp_path):
    """A config error with both reasons, printed once, and nothing is made."""
    config = config_of(tmp_path, train__sync_batchnorm=True, train__max_microbatch_size=2)
    batch = ["--set", "train.global_batch_size=9"]
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs", *batch])
    assert job.wait() in ([2, 2], [2, 75]), job.report()  # the launcher may end the other rank first
    line = next(n for n, text in enumerate(config.read_text().splitlines(), 1) if "sync_batchnorm" in text)
    cpu, uneven = job.stderr(0).splitlines()
    assert cpu.startswith(f"{config}:{line}:")
    assert "train.sync_batchnorm: true needs CUDA: torch has no synchronised batch norm on the CPU" in cpu
    assert "of a global batch of 9 samples some of the 2 ranks have 3 microbatches and others 2" in uneven
    assert job.stderr(1) == "" and not (tmp_path / "runs").exists()


def test_check_tells_of_a_short_last_batch(command, tmp_path):
    """32 samples in batches of 10 leave 2, of which 3 ranks have 1, 1 and none."""
    config = config_of(tmp_path, train__sync_batchnorm=True, train__global_batch_size=10)
    for options, status in (([], 2), (["--set", "loader.drop_last=true"], 0)):
        job = command(1, ["check", config, "--world-size", "3", *options], launcher=False)
        assert job.wait() == [status], job.report()
        told = "of a global batch of 2 samples some of the 3 ranks have 1 microbatches and others 0"
        assert (told in job.stderr(0)) == bool(status)


@pytest.mark.parametrize(
    ("windows", "limit", "world_size", "paired"),
    [
        ([16], None, 2, True),
        ([17], None, 2, True),  # shares of 9 and 8, in one microbatch each
        ([17], 8, 2, False),
        ([16, 1], None, 2, False),
        ([1], None, 1, True),
        ([6], 2, 3, True),
    ],
)
def test_ranks_are_paired_where_all_have_as_many_microbatches(windows, limit, world_size, paired):
    train = TrainSettings(steps=1, global_batch_size=16, max_microbatch_size=limit, sync_batchnorm=True)
    assert (unpaired(train, windows, world_size) is None) == paired
    if not paired:
        with pytest.raises(RunError, match=r"would wait for ever.*loader\.drop_last"):
            require_paired(train, windows, world_size)


if torch.cuda.device_count() > 1:  # one of its own for each rank

    def test_joined_statistics_are_those_of_the_whole_batch(command, tmp_path):
        """On CUDA two ranks then train with the bits, but for rounding, of one."""
        config = config_of(tmp_path, train__sync_batchnorm=True, distributed__device="cuda")
        means = []
        for world_size in (1, 2):
            runs = tmp_path / f"runs-{world_size}"
            job = command(world_size, ["run", config, "--runs-dir", runs])
            assert job.wait() == [0] * world_size, job.report()
            means.append(weights_of(only_run(runs))["norm.running_mean"])
        torch.testing.assert_close(means[0], means[1], rtol=0, atol=1e-5)
