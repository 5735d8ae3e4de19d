"""What a sample looks like: the same for any number of ranks and workers, and never the same twice."""

from __future__ import annotations

import json

import pytest

from runs_of import PARTS, write_config

MORE_PARTS = [str(PARTS), str(PARTS.with_name("reading_parts.py"))]
LENGTH, EPOCHS = 12, 3


def draws_of(command, folder, world_size, **loader):
    """By (epoch, index): one draw each of torch, numpy and random."""
    (folder / "read").mkdir(parents=True)
    dataset = {"type": "indexed", "length": LENGTH, "folder": str(folder / "read"), "draws": True}
    config = write_config(
        folder,
        components=MORE_PARTS,
        dataset={"train": dataset},
        objective={"type": "telling"},
        metrics={},
        loader=loader,
        train={"epochs": EPOCHS, "global_batch_size": 4},
    )
    job = command(world_size, ["run", config, "--runs-dir", folder / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    lines = [line for path in (folder / "read").iterdir() for line in path.read_text().splitlines()]
    reads = [row for row in map(json.loads, lines) if "index" in row]
    assert len(reads) == LENGTH * EPOCHS
    return {(row["epoch"], row["index"]): tuple(row["draws"]) for row in reads}


@pytest.fixture(scope="module")
def alone():
    """The draws of one process without workers, as the first test finds them."""
    return {}


CASES = [(1, 2, "fork"), (1, 4, "fork"), (2, 0, "fork"), (2, 2, "fork"), (3, 1, "fork"), (1, 2, "spawn"),
         (2, 1, "forkserver")]  # fmt: skip


@pytest.mark.parametrize(("world_size", "workers", "start_method"), CASES)
def test_a_sample_is_a_function_of_seed_epoch_and_index(
    command, tmp_path, alone, world_size, workers, start_method
):
    """SMP-05, SMP-06: for torch, numpy and random; workers live on from epoch to epoch."""
    if not alone:
        alone |= draws_of(command, tmp_path / "alone", 1)
    draws = draws_of(command, tmp_path / "other", world_size, workers=workers, start_method=start_method)
    assert draws == alone
    for library in range(3):
        assert len({drawn[library] for drawn in draws.values()}) == LENGTH * EPOCHS


@pytest.mark.parametrize(("world_size", "workers"), [(1, 0), (1, 2), (2, 2)])
def test_without_sample_seeds_nothing_is_drawn_twice_either(command, tmp_path, world_size, workers):
    """SMP-05, SMP-06: no two draws are equal over workers, ranks and epochs, and a run repeats exactly."""
    first, second = (
        draws_of(command, tmp_path / name, world_size, workers=workers, sample_seeds=False) for name in "ab"
    )
    assert first == second
    for library in range(3):
        assert len({drawn[library] for drawn in first.values()}) == LENGTH * EPOCHS
