"""Ranks to which nothing falls of a global batch take part all the same."""

from __future__ import annotations

import pytest
import torch

from runs_of import PARTS, only_run, weights_of, write_config

MORE_PARTS = [str(PARTS), str(PARTS.with_name("reading_parts.py"))]


@pytest.mark.parametrize("kind", ["embedding", "bag"])
def test_sparse_gradients_where_a_rank_has_no_sample(command, tmp_path, kind):
    """A batch of one sample for two ranks: the second gives a gradient of no rows, and it is sparse too."""
    config = write_config(
        tmp_path,
        components=MORE_PARTS,
        model={"type": "sparse_words", "bag": kind == "bag"},
        dataset={"train": {"type": "words", "length": 5}},
        metrics={},
        optimizer={"type": "sgd", "lr": 0.5},
        train={"epochs": 2, "global_batch_size": 1},
        hooks={"checkpoint": {"every": "2 epochs"}},
    )
    weights = {}
    for world_size in (1, 2):
        runs = tmp_path / f"runs-{world_size}"
        job = command(world_size, ["run", config, "--runs-dir", runs])
        assert job.wait() == [0] * world_size, job.report()
        weights[world_size] = weights_of(only_run(runs))
    assert weights[1].keys() == weights[2].keys()
    for name, value in weights[1].items():
        torch.testing.assert_close(weights[2][name], value, rtol=0, atol=1e-6)
