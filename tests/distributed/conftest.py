"""Runs that several tests only look at, or take a copy of."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from harness import RankServer
from runs_of import only_run, write_config


@pytest.fixture(scope="session")
def trained(rank_server: RankServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The config and the folder of a run of two ranks, with checkpoints of steps 10 and 15."""
    tmp_path = tmp_path_factory.mktemp("trained")
    config = write_config(tmp_path, metrics={}, hooks={"checkpoint": {"every": "1 epoch"}})
    with closing(rank_server.command(2, ["run", config, "--runs-dir", tmp_path / "runs"])) as job:
        assert job.wait() == [0, 0], job.report()
    return config, only_run(tmp_path / "runs")
