"""``train.sync_batchnorm`` where it cannot be had: a fault of the config, told before anything is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipeline.config.config import Config
from pipeline.engine.sync_batchnorm import NEEDS_CUDA, unpaired
from pipeline.engine.world import World
from pipeline.errors import ConfigError, Problem

_KEY = "train.sync_batchnorm"


def require_sync_batchnorm(config: Config, world: World) -> None:
    """Raises: ConfigError: if batch norms are to be joined over these ranks, and cannot be."""
    problems = list(sync_batchnorm_problems(config, world.world_size, [config.plan.train.global_batch_size]))
    if config.plan.train.sync_batchnorm and world.device.type != "cuda":
        problems.insert(0, _problem(config, NEEDS_CUDA, "false, or a device with CUDA"))
    if problems:
        raise ConfigError(problems)


def sync_batchnorm_problems(
    config: Config, world_size: int, window_sizes: Iterable[int]
) -> Iterator[Problem]:
    """What the numbers of microbatches of these global batches say against it."""
    train = config.plan.train
    reason = unpaired(train, window_sizes, world_size) if train.sync_batchnorm else None
    if reason is not None:
        yield _problem(config, reason, "a global batch that gives every rank as much, or loader.drop_last")


def _problem(config: Config, reason: str, expected: str) -> Problem:
    place = config.places.get(_KEY, config.path)
    return Problem(str(place), _KEY, f"true {reason}", expected)
