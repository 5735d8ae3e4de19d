"""Starting a side's processes, and waiting for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.job import Job
from benchmarks.sides import Side

ROOT = Path(__file__).parent.parent


class FailedError(RuntimeError):
    """A side has failed: with its output."""


def train(side: Side, job: Job, world_size: int) -> None:
    """Train the job, in fresh processes of its own.

    Raises:
        FailedError: if they fail, or write no result.
    """
    command = [*_launcher(world_size), "-m", *side.command(job, world_size)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode or not job.result.exists():
        raise FailedError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")


def environment() -> dict[str, str]:
    """This process's, but for what would have the package compiled anew at every start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _launcher(world_size: int) -> Sequence[str]:
    if world_size == 1:
        return [sys.executable]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, "--nproc-per-node", str(world_size)]
