"""Which process this is, on which device, with how many threads."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from pipeline.api.settings import DistributedSettings
from pipeline.engine.collector import collector_at_rest
from pipeline.engine.cores import usable_cores
from pipeline.errors import RunError

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@dataclass(frozen=True)
class World:
    """This process among all processes of the run."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    device: torch.device
    host: str

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def is_local_main(self) -> bool:
        return self.local_rank == 0

    @property
    def device_name(self) -> str:
        """``cpu``, or the model of this process's accelerator."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type

    @classmethod
    def from_environment(
        cls, settings: DistributedSettings, environ: Mapping[str, str] = os.environ
    ) -> World:
        """Read torchrun's variables; without them this is the only process.

        Raises:
            RunError: if only some of the variables are set, or the device is not there.
        """
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
        if "WORLD_SIZE" not in environ and "RANK" not in environ:
            rank, local_rank, world_size, local_world_size = 0, 0, 1, 1
        else:
            missing = [name for name in names if name not in environ]
            if missing:
                raise RunError(
                    f"the launcher set some of {', '.join(names)}, but not {', '.join(missing)}; "
                    "start with torchrun, or unset all of them"
                )
            rank, local_rank, world_size, local_world_size = (int(environ[name]) for name in names)
        return cls(
            rank,
            local_rank,
            world_size,
            local_world_size,
            _device(settings, local_rank),
            socket.gethostname(),
        )


def _device(settings: DistributedSettings, local_rank: int) -> torch.device:
    """One CUDA device per local rank, or the CPU."""
    wants_cuda = settings.device == "cuda" or (settings.device == "auto" and torch.cuda.is_available())
    if not wants_cuda:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RunError('distributed.device = "cuda", but torch finds no CUDA device here')
    if local_rank >= torch.cuda.device_count():
        raise RunError(
            f"local rank {local_rank} has no CUDA device of its own: this host has "
            f"{torch.cuda.device_count()}; start fewer processes per host"
        )
    return torch.device("cuda", local_rank)


def choose_threads(
    settings: DistributedSettings, local_world_size: int, environ: Mapping[str, str] = os.environ
) -> tuple[int, str]:
    """Threads for this rank, and why: the config, the user's OMP_NUM_THREADS, or a share of the cores.

    torchrun sets OMP_NUM_THREADS=1 by itself where it starts several processes; that is not the user's wish.
    """
    if isinstance(settings.threads, int):
        return settings.threads, "distributed.threads"
    wish = environ.get("OMP_NUM_THREADS", "")
    by_launcher = wish == "1" and local_world_size > 1 and "TORCHELASTIC_RUN_ID" in environ
    if wish.isdigit() and int(wish) > 0 and not by_launcher:
        return int(wish), "OMP_NUM_THREADS"
    cores = usable_cores()
    return max(1, cores // local_world_size), f"{cores} cores / {local_world_size} local ranks"


@contextmanager
def torch_switches(*, threads: int, deterministic: bool) -> Iterator[None]:
    """Set torch's process-wide switches for a run and put back what was there."""
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
    )
    workspace = os.environ.get(_WORKSPACE)
    if deterministic and workspace is None:
        os.environ[_WORKSPACE] = ":4096:8"  # read when CUDA starts
    torch.set_num_threads(threads)
    with collector_at_rest():  # of torch 2.13 the first call imports torch._dynamo, nearly as much as torch
        torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        torch.backends.cudnn.benchmark = before[3]
        if workspace is None:
            os.environ.pop(_WORKSPACE, None)
