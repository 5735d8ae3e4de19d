"""Evaluation counts every sample once, at any length, batch and number of ranks."""

from __future__ import annotations

import json

import pytest

from runs_of import PARTS, only_run, rows_of, write_config

MORE_PARTS = [str(PARTS), str(PARTS.with_name("reading_parts.py"))]
LENGTHS = [1, 5, 7, 8, 9]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch", [2, 4])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_length_is_counted_exactly(command, tmp_path, world_size, batch, drop_last):
    """MET-02, REQ-05: the count is the length and the mean (n - 1) / 2; drop_last concerns training alone."""
    datasets = {f"eval{length}": {"type": "indexed", "length": length} for length in LENGTHS}
    config = write_config(
        tmp_path,
        components=MORE_PARTS,
        dataset={"train": {"type": "indexed", "length": 9}, **datasets},
        objective={"type": "telling"},
        metrics={"mean_number": {}, "how_many": {}},
        loader={"drop_last": drop_last},
        train={"epochs": 1, "global_batch_size": 4, "eval_batch_size": batch},
        hooks={"checkpoint": {"every": "1 epoch"}},
    )
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    folder = only_run(tmp_path / "runs")
    (row,) = [row for row in rows_of(folder) if "eval1/how_many" in row]
    for length in LENGTHS:
        assert row[f"eval{length}/how_many"] == length
        assert row[f"eval{length}/mean_number"] == pytest.approx((length - 1) / 2, abs=1e-6)
    if drop_last:
        return
    for length in LENGTHS:
        out = tmp_path / f"{length}.jsonl"
        job = command(world_size, ["predict", folder, "--dataset", f"eval{length}", "-o", out])
        assert job.wait() == [0] * world_size, job.report()
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert (
            [line["index"] for line in lines]
            == [line["predictions"] for line in lines]
            == list(range(length))
        )


KNOWN = """\
from typing import Literal

from pipeline import Outcome, register


@register("objective", "known")
class Known:
    def __init__(self, weight: Literal["samples", "count", "tensor"]) -> None:
        self.weight = weight

    def __call__(self, model, batch):
        inputs, labels, numbers = batch
        weights = {"samples": None, "count": 2.0 * len(numbers), "tensor": (numbers + 1).sum()}
        return Outcome(numbers.sum() + 0 * model(inputs).sum(), weights[self.weight])
"""


@pytest.mark.parametrize(("weight", "mean"), [("samples", 36 / 9), ("count", 36 / 18), ("tensor", 36 / 45)])
def test_the_loss_is_the_mean_by_the_objective_s_weights(command, tmp_path, weight, mean):
    """Over the samples 0 to 8: by samples, by a plain count of the objective's, by a tensor of it."""
    (tmp_path / "known.py").write_text(KNOWN)
    config = write_config(
        tmp_path,
        components=[*MORE_PARTS, "known.py"],
        dataset={"train": {"type": "indexed", "length": 8}, "eval": {"type": "indexed", "length": 9}},
        objective={"type": "known", "weight": weight},
        metrics={},
        train={"epochs": 1, "global_batch_size": 4, "eval_batch_size": 4},
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [0, 0], job.report()
    (row,) = [row for row in rows_of(only_run(tmp_path / "runs")) if "eval/loss" in row]
    assert row["eval/loss"] == pytest.approx(mean, abs=1e-6)
