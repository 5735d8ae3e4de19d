"""Commands run in real processes, and a run to work with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from harness import RankServer
from runs_of import PARTS, only_run, write_config

OFFLINE_PARTS = Path(__file__).parent / "offline_parts.py"
RESTLESS = {
    "components": [str(PARTS), str(OFFLINE_PARTS)],
    "model": {"type": "restless"},
    "objective": {"type": "tempered"},
    "optimizer": {"type": "training_only"},
    "metrics": {"accuracy": {}, "samples": {}},
    "dataset": {
        "train": {"type": "noisy", "length": 40, "for_training": True},
        "eval": {"type": "noisy", "length": 23},
        "other": {"type": "noisy", "length": 5},
    },
    "train": {"epochs": 2, "global_batch_size": 8, "evaluate_every": "3 steps"},
    "hooks": {
        "checkpoint": {"every": "3 steps", "keep_last": 9, "monitor": "eval/loss"},
        "training_only": {},
    },
}
"""What an evaluation may depend on: epoch, random states, buffers, and parameters of the objective."""
QUIET = {
    "components": RESTLESS["components"],
    "dataset": RESTLESS["dataset"],
    "train": {"epochs": 2, "global_batch_size": 8},
    "hooks": {"checkpoint": {"every": "never"}},
}


Train = Callable[..., Path]


@pytest.fixture(scope="session")
def trained(rank_server: RankServer, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """``trained(world_size, **changes)``: the folder of a finished run; nothing may change it."""

    def folder(world_size: int, **changes: object) -> Path:
        place = tmp_path_factory.mktemp("trained")
        config = write_config(place, **changes)
        arguments = ["run", config, "--runs-dir", place / "runs"]
        with closing(rank_server.command(world_size, arguments)) as job:
            assert job.wait() == [0] * world_size, job.report()
        return only_run(place / "runs")

    return folder


@pytest.fixture(scope="session")
def restless(trained: Train) -> Callable[[int], Path]:
    """``restless(world_size)``: a run of 10 steps whose evaluations draw, at that world size."""
    return cache(lambda world_size: trained(world_size, **RESTLESS))


@pytest.fixture(scope="session")
def quiet(trained: Train) -> Path:
    """A run of 10 steps that draws in nothing but its samples, without a best checkpoint."""
    return trained(1, **QUIET)
