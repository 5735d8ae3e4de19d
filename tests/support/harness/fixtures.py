"""The fixtures of the harness, for all tests (tests/conftest.py loads them as a plugin)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from harness.client import Job, RankServer
from harness.torchrun import Torchrun, start_torchrun


@pytest.fixture(scope="session")
def rank_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankServer]:
    with closing(RankServer(tmp_path_factory.mktemp("ranks"))) as server:
        yield server


@pytest.fixture(scope="session")
def ranks(rank_server: RankServer) -> Callable[..., list[Any]]:
    """``ranks(world_size, function, *arguments)``: what each rank returned; raises if one failed."""

    def run(world_size: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
        with closing(rank_server.spawn(world_size, function, *arguments, **options)) as job:
            return job.results()

    return run


@pytest.fixture
def spawn(rank_server: RankServer) -> Iterator[Callable[..., Job]]:
    """``spawn(world_size, function, *arguments)``: a job in progress, killed with the test's end."""
    with ExitStack() as jobs:
        yield lambda *arguments, **options: jobs.enter_context(
            closing(rank_server.spawn(*arguments, **options))
        )


@pytest.fixture
def command(rank_server: RankServer) -> Iterator[Callable[..., Job]]:
    """``command(world_size, argv, env=, cwd=)``: ranks that run ``pipeline ARGV``, as under torchrun.

    With ``launcher=False`` and world size 1 it is the plain command of a shell.
    """
    with ExitStack() as jobs:
        yield lambda *arguments, **options: jobs.enter_context(
            closing(rank_server.command(*arguments, **options))
        )


@pytest.fixture
def torchrun(tmp_path: Path) -> Iterator[Callable[..., Torchrun]]:
    """``torchrun(processes, argv, env=, cwd=, options=)``: the real launcher over ``-m pipeline``."""
    with ExitStack() as launchers:
        started = 0

        def start(processes: int, arguments: list[object], **options: Any) -> Torchrun:
            nonlocal started
            started += 1
            folder = tmp_path / f"torchrun-{started}"
            return launchers.enter_context(start_torchrun(processes, arguments, folder=folder, **options))

        yield start
