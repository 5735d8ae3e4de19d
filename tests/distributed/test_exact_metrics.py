"""Promise 3 by hand: values of the whole set, never a mean of means, whatever ranks and batches."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from runs_of import PARTS, only_run, record_of, rows_of, write_config
from separate import load_parts

FILE = PARTS.with_name("weight_parts.py")
VALUES = [0.0, 0.0, 0.0, 0.0, 10.0]


def ran(command, world_size, folder, **changes):
    folder.mkdir(exist_ok=True)
    config = write_config(folder, **{"components": [str(FILE)], "sampler": {"type": "sequential"}} | changes)
    job = command(world_size, ["run", config, "--runs-dir", folder / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(folder / "runs")


@pytest.mark.parametrize(
    ("world_size", "batch", "counts"),
    [(1, 2, False), (2, 2, True), (2, 3, False), (5, 5, True), (5, 2, False)],
)
def test_a_loss_is_the_mean_over_samples(command, tmp_path, world_size, batch, counts):
    """MET-03: losses 0, 0, 0, 0, 10; 2.0 exactly over the epoch, and of a step the mean of its samples."""
    listed = {"type": "listed", "values": VALUES}
    rows = {}
    for log_every in ("1 step", "1 epoch"):
        folder = ran(
            command,
            world_size,
            tmp_path / log_every[2:],
            model={"type": "one_weight"},
            dataset={"train": listed, "eval": listed},
            objective={"type": "the_values", "counts": counts},
            metrics={},
            train={"epochs": 1, "global_batch_size": batch, "log_every": log_every},
        )
        rows[log_every] = [row["train/loss"] for row in rows_of(folder) if "train/loss" in row]
        assert [row["eval/loss"] for row in rows_of(folder) if "eval/loss" in row] == [2.0]
    steps = [VALUES[start : start + batch] for start in range(0, len(VALUES), batch)]
    assert rows["1 step"] == pytest.approx([sum(step) / len(step) for step in steps], abs=1e-12)
    assert rows["1 epoch"] == [2.0]


PREDICTED = [1, 0, 1, 1, 0, 0, 1, 0]
LABELS = [1, 0, 1, 0, 1, 0, 0, 1]
"""Of two ranks the first gets the labels 1, 1, 1, 0 and the second 0, 0, 0, 1."""


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_metrics_that_are_no_means_are_those_of_the_whole_set(command, tmp_path, world_size):
    """MET-05: F1, a maximum, and the exponential of a mean, where ranks see other classes."""
    data = {"type": "judged", "predicted": PREDICTED, "labels": LABELS}
    folder = ran(
        command,
        world_size,
        tmp_path,
        model={"type": "unchanged"},
        dataset={"train": data, "eval": data},
        objective={"type": "cross_entropy"},
        optimizer={"type": "sgd", "lr": 0.0},
        metrics={
            "f1": {},
            "highest": {},
            "perplexity": {},
            "f1_of_torchmetrics": {"type": "torchmetrics", "metric": "MulticlassF1Score", "arguments": MACRO},
        },
        train={"epochs": 1, "global_batch_size": 4, "eval_batch_size": 2},
    )
    (row,) = [row for row in rows_of(folder) if "eval/loss" in row]
    logits = load_parts(FILE).Judged(PREDICTED, LABELS).logits
    perplexity = torch.exp(cross_entropy(logits.double(), torch.tensor(LABELS))).item()
    assert row["eval/f1"] == pytest.approx(0.5, abs=1e-6)  # 2 hits, 2 false alarms, 2 misses
    assert row["eval/f1_of_torchmetrics"] == pytest.approx(0.5, abs=1e-6)
    assert row["eval/highest"] == pytest.approx(logits.max().item(), abs=1e-6)
    assert row["eval/perplexity"] == pytest.approx(perplexity, abs=1e-6)


MACRO = {"num_classes": 2, "average": "macro"}
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("values", "epochs", "best", "by"),
    [
        pytest.param([NAN, 0.5, 0.4, NAN, 0.3], 5, 5, None, id="as reported"),
        pytest.param([NAN, 0.5, 0.4, NAN, 0.3], 5, 5, 1, id="from rank 1 alone"),
        pytest.param([NAN, NAN, 0.1], 2, None, None, id="nothing but nan"),
        pytest.param([0.5, INF, NAN, 0.1], 3, 1, 1, id="after a best"),
    ],
)
def test_a_nan_counts_against_patience(command, tmp_path, values, epochs, best, by):
    """MET-06: mode min, keep_best 1, patience 2; each is logged, and all ranks decide the same."""
    listed = {"type": "listed", "values": VALUES}
    folder = ran(
        command,
        2,
        tmp_path,
        components=[str(FILE), str(PARTS.with_name("saving.py"))],
        model={"type": "one_weight"},
        dataset={"train": listed, "eval": listed},
        objective={"type": "the_values"},
        metrics={"told": {"type": "scripted", "values": values, **({} if by is None else {"by": by})}},
        train={"epochs": len(values), "global_batch_size": 5},
        hooks={
            "early_stopping": {"monitor": "eval/told", "patience": 2},
            "checkpoint": {"every": "1 epoch", "monitor": "eval/told", "keep_best": 1, "keep_last": 1},
        },
    )
    record = record_of(folder)
    assert record["steps"] == epochs
    assert (record["best"] or {}).get("step") == best
    logged = [row["eval/told"] for row in rows_of(folder) if "eval/told" in row]
    assert logged == [{NAN: "NaN", INF: "Infinity"}.get(value, value) for value in values[:epochs]]
