"""When all ranks save, which checkpoint is the best, and that one rank decides both."""

from __future__ import annotations

import pytest
import torch

from pipeline.runs.checkpoints import Checkpoints
from runs_of import BASE, PARTS, only_run, record_of, rows_of, write_config

COMPONENTS = [*BASE["components"], str(PARTS.with_name("saving.py"))]
NAN, INF = float("nan"), float("inf")


def ran(command, tmp_path, config, world_size=2, *options, **surroundings):
    job = command(world_size, ["run", config, "--runs-dir", tmp_path / "runs", *options], **surroundings)
    assert job.wait(timeout=60) == [0] * world_size, job.report()
    return only_run(tmp_path / "runs")


def configured(tmp_path, **changes):
    return write_config(tmp_path, components=COMPONENTS, **changes)


def sound(folder):
    store = Checkpoints(folder / "checkpoints")
    assert [path.name for path in store.folder.glob(".*")] == []
    assert [problem for one in store.checkpoints() for problem in store.verify(one.name)] == []
    return sorted(one.step for one in store.checkpoints())


@pytest.mark.parametrize("by", [None, 1], ids=["all ranks", "rank 1 alone"])
@pytest.mark.parametrize(
    ("values", "mode", "best"),
    [
        ([NAN, 0.5, 0.4, NAN, 0.3], "min", 25),
        ([NAN, 0.5, 0.4, NAN], "min", 15),
        ([INF, 0.5, 0.4, INF], "min", 15),
        ([NAN, 0.4, 0.5, NAN], "max", 15),
    ],
)
def test_nan_is_never_the_best(command, tmp_path, values, mode, best, by):
    """MET-06: nan, 0.5, 0.4, nan, 0.3 over epochs, keep_best 1; no NaN is ever the best."""
    told = {"type": "scripted", "values": values, **({} if by is None else {"by": by})}
    config = configured(
        tmp_path,
        metrics={"told": told},
        train__epochs=len(values),
        hooks={"checkpoint": {"every": "1 epoch", "monitor": "eval/told", "mode": mode, "keep_last": 1}},
    )
    folder = ran(command, tmp_path, config)
    assert (folder / "checkpoints" / "best").read_text() == f"step-{best:06d}\n"
    assert sound(folder) == sorted({best, 5 * len(values)})
    assert record_of(folder)["best"] == {"metric": "eval/told", "value": values[best // 5 - 1], "step": best}
    shown = [row["eval/told"] for row in rows_of(folder) if "eval/told" in row]
    assert shown == [{NAN: "NaN", INF: "Infinity"}.get(value, value) for value in values]


def test_a_metric_that_differs_on_a_rank_does_not_part_them(command, tmp_path):
    """CKP-03: rank 1 adds 1e-6; all save alike, and the best is rank 0's."""
    told = {"type": "scripted", "values": [0.5, 0.4, 0.4], "apart": 1e-6}
    config = configured(
        tmp_path,
        metrics={"told": told},
        hooks={"checkpoint": {"every": "1 epoch", "monitor": "eval/told", "keep_last": 1}},
    )
    folder = ran(command, tmp_path, config)
    assert sound(folder) == [10, 15]
    assert record_of(folder)["best"] == {"metric": "eval/told", "value": 0.4, "step": 10}


def test_a_clock_of_one_rank_decides_for_all(command, tmp_path):
    """CKP-03: a hook of rank 0 asks by its own clock; every rank takes part in every save."""
    config = configured(
        tmp_path,
        train__epochs=4,
        hooks={"clock": {"seconds": 0.1}, "slow": {"seconds": 0.03}},
    )
    folder = ran(command, tmp_path, config)
    steps = sound(folder)
    assert len(steps) >= 2
    for step in steps:
        path = folder / "checkpoints" / f"step-{step:06d}" / "state.pt"
        assert len(torch.load(path, weights_only=True)["ranks"]) == 2


def test_a_rank_that_sees_no_checkpoint_resumes_all_the_same(command, tmp_path):
    """CKP-03: on rank 1 every look at the checkpoints says that there are none."""
    config = configured(tmp_path, hooks={"checkpoint": {"every": "1 epoch"}})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs", "--set", "hooks.killer={step=12}"])
    assert job.wait() == [-9, -9]
    folder = ran(command, tmp_path, config, 2, "--resume", env={"BLIND": "yes"})
    assert record_of(folder)["attempts"][1]["first_step"] == 11
    assert [row["step"] for row in rows_of(folder) if "train/loss" in row] == list(range(1, 16))


@pytest.mark.parametrize("late", [0, 2])
def test_one_rank_writes_whoever_is_late(command, tmp_path, late):
    """CKP-02: saves of every step with a slow rank, and folders of those names there already."""
    config = configured(
        tmp_path,
        train={"steps": 20, "global_batch_size": 8, "evaluate_every": "never"},
        metrics={},
        hooks={"late_rank": {"rank": late}, "checkpoint": {"every": "1 step", "keep_last": 30}},
    )
    job = command(3, ["run", config, "--runs-dir", tmp_path / "runs", "--set", "hooks.killer={step=6}"])
    assert job.wait() == [-9, -9, -9]
    for step in (6, 9):
        foreign = only_run(tmp_path / "runs") / "checkpoints" / f"step-{step:06d}"
        foreign.mkdir(exist_ok=True)
        (foreign / "rank-1.pt").write_bytes(b"of an earlier run")
    folder = ran(command, tmp_path, config, 3, "--resume")
    assert sound(folder) == list(range(1, 21))
    for step in range(1, 21):
        path = folder / "checkpoints" / f"step-{step:06d}"
        state = torch.load(path / "state.pt", weights_only=True)
        assert [rank["hooks"]["late_rank"]["late"] for rank in state["ranks"]] == [
            rank == late for rank in range(3)
        ]
        assert sorted(file.name for file in path.iterdir()) == [
            "manifest.json",
            "model.safetensors",
            "state.pt",
        ]
