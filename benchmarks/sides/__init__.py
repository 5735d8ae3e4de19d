"""Who is compared: each side trains the same job, as its own documentation says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from benchmarks.job import Job
from benchmarks.sides import engine


def _module(name: str) -> Callable[[Job, int], list[str]]:
    def command(job: Job, world_size: int) -> list[str]:
        return [f"benchmarks.sides.{name}", str(job.write())]

    return command


def _engine(job: Job, world_size: int) -> list[str]:
    job.write()
    return engine.command(job, world_size)


@dataclass(frozen=True)
class Side:
    """A way to train a job."""

    name: str
    about: str
    command: Callable[[Job, int], list[str]]
    """From the job and the number of ranks, the module to run with its arguments."""
    distribution: str | None = None
    """What has to be installed for it, beside the package itself."""

    @property
    def version(self) -> str | None:
        """Of the distribution, as installed; None: it is not."""
        try:
            return version(self.distribution) if self.distribution else ""
        except PackageNotFoundError:
            return None


BEST, ENGINE, TUTORIAL = "best loop", "engine", "tutorial loop"
_ALL = (
    Side(BEST, "the best hand-written loop", _module("best_loop")),
    Side(ENGINE, "`pipeline run`", _engine),
    Side(TUTORIAL, "the loop of torch's tutorials", _module("tutorial_loop")),
    Side("Ignite", "supervised trainer", _module("with_ignite"), "pytorch-ignite"),
    Side("Accelerate", "prepared plain loop", _module("with_accelerate"), "accelerate"),
    Side("MMEngine", "Runner", _module("with_mmengine"), "mmengine-lite"),
    Side("HF Trainer", "Trainer", _module("with_transformers"), "transformers"),
    Side("Lightning", "Trainer", _module("with_lightning"), "lightning"),
)
SIDES = {side.name: side for side in _ALL}
