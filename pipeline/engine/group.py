"""The collectives that the engine uses, and where there is one process, their absence.

Everything but DDP's own gradient reduction goes through here, so that one place shows what ranks
ever wait for.
"""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store, TCPStore, rendezvous  # type: ignore[attr-defined]

from pipeline.api.duration import format_duration
from pipeline.api.settings import DistributedSettings
from pipeline.engine.gate import Gate
from pipeline.engine.world import World
from pipeline.errors import RunError

_POLL = 0.01  # seconds


class Group(Protocol):
    """All ranks of the run."""

    @property
    def world_size(self) -> int: ...

    def all_gather(self, packed: Tensor) -> list[Tensor]:
        """Every rank's bytes in rank order; ``packed`` is uint8 (n,), n equal on all ranks."""
        ...

    def all_reduce_async(self, total: Tensor) -> dist.Work | None:
        """Start adding ``total`` up over the ranks, in place; wait on the result before reading it."""
        ...

    def all_gather_count(self, count: int) -> Callable[[], list[int]]:
        """Start telling all ranks a number; the result waits for every rank's, in rank order."""
        ...

    def broadcast(self, value: Any, source: int = 0) -> Any:
        """What ``source`` passed, on every rank; any picklable value."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value in rank order; complete on rank 0, empty elsewhere."""
        ...

    def all_gather_objects(self, value: Any) -> list[Any]:
        """Every rank's value in rank order, on every rank."""
        ...

    def barrier(self) -> None: ...

    def without_collectives(self, who: str) -> AbstractContextManager[None]:
        """Inside, whoever starts a collective gets a ComponentError that names ``who`` did."""
        ...

    def await_built(self) -> None:
        """Wait until every rank has built its components, which may take longer than a collective may."""
        ...

    def close(self) -> None: ...


class Alone:
    """One process: no process group, no port, nothing to wait for."""

    world_size = 1

    def all_gather(self, packed: Tensor) -> list[Tensor]:
        return [packed]

    def all_reduce_async(self, total: Tensor) -> None:
        return None

    def all_gather_count(self, count: int) -> Callable[[], list[int]]:
        return lambda: [count]

    def broadcast(self, value: Any, source: int = 0) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def all_gather_objects(self, value: Any) -> list[Any]:
        return [value]

    def barrier(self) -> None:
        return None

    def without_collectives(self, who: str) -> AbstractContextManager[None]:
        return nullcontext()

    def await_built(self) -> None:
        return None

    def close(self) -> None:
        return None


class ProcessGroup:
    """Several processes, joined by torch.distributed's default group."""

    def __init__(self, world: World, settings: DistributedSettings, store: Store) -> None:
        backend = settings.backend
        if backend == "auto":
            backend = "nccl" if world.device.type == "cuda" else "gloo"
        if world.device.type == "cuda":
            torch.cuda.set_device(world.device)
        dist.init_process_group(
            backend,
            store=PrefixStore("group", store),
            rank=world.rank,
            world_size=world.world_size,
            timeout=settings.timeout,
            device_id=world.device if backend == "nccl" else None,
        )
        self._gate = Gate()
        self._device = world.device if backend == "nccl" else torch.device("cpu")
        self._counts: dist.ProcessGroup | None = None
        self._timeout = settings.timeout
        self._rank = world.rank
        self._store = store
        self._prepare_timeout = settings.prepare_timeout
        self.world_size = world.world_size

    def all_gather(self, packed: Tensor) -> list[Tensor]:
        mine = packed.to(self._device)
        gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(gathered, mine)
        return [data.cpu() for data in gathered]

    def all_reduce_async(self, total: Tensor) -> dist.Work | None:
        work: dist.Work | None = dist.all_reduce(total, async_op=True)
        return work

    def all_gather_count(self, count: int) -> Callable[[], list[int]]:
        mine = torch.tensor([count])
        gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        work = dist.all_gather(gathered, mine, group=self._host_group(), async_op=True)

        def counts() -> list[int]:
            work.wait()
            return [int(one) for one in gathered]

        return counts

    def _host_group(self) -> dist.ProcessGroup | None:
        """A group for numbers on the host, so that reading them does not wait for the device."""
        if self._device.type == "cpu":
            return None  # the default group
        if self._counts is None:
            self._counts = dist.new_group(backend="gloo", timeout=self._timeout)
        return self._counts

    def broadcast(self, value: Any, source: int = 0) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=source, device=self._device)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        boxes: list[Any] | None = [None] * self.world_size if self._rank == 0 else None
        dist.gather_object(value, boxes)
        return boxes or []

    def all_gather_objects(self, value: Any) -> list[Any]:
        boxes: list[Any] = [None] * self.world_size
        dist.all_gather_object(boxes, value)
        return boxes

    def barrier(self) -> None:
        dist.barrier()

    def without_collectives(self, who: str) -> AbstractContextManager[None]:
        return self._gate.shut(who)

    def await_built(self) -> None:
        """Raises RunError: naming the ranks that have not built theirs within ``prepare_timeout``."""
        await_ranks(self._store, "built", self._rank, self.world_size, self._prepare_timeout)

    def close(self) -> None:
        """Leave together; DDP's reducer must be gone by now, or gloo's threads can deadlock with it."""
        gc.collect()
        dist.barrier()
        self._gate.remove()
        dist.destroy_process_group()


def await_ranks(store: Store, event: str, rank: int, world_size: int, timeout: timedelta) -> None:
    """Wait until every rank has come to ``event``.

    By asking again and again, since a blocking wait would keep signals from being handled.

    Raises:
        RunError: naming the ranks that are missing after ``timeout``.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    store.set(f"{event}/{rank}", "yes")
    waiting = [other for other in range(world_size) if other != rank]
    while waiting := [other for other in waiting if not store.check([f"{event}/{other}"])]:
        if time.monotonic() > deadline:
            raise RunError(
                f"ranks {waiting} have not come to {event!r} within distributed.prepare_timeout = "
                f'"{format_duration(timeout)}"; look into their logs, or raise it'
            )
        time.sleep(_POLL)


def launcher_store(timeout: timedelta) -> Store:
    """The store that the launcher's variables lead to; torchrun's own where it serves one."""
    store: Store = next(iter(rendezvous("env://", timeout=timeout)))[0]
    return store


class AttemptStore(PrefixStore):
    """A part of the launcher's store for one attempt alone: torchrun restarts a group over the same one."""

    def __init__(self, attempt: str, store: Store) -> None:
        super().__init__(f"attempt-{attempt}", store)
        self.attempt = attempt


def another_connection(store: Store, timeout: timedelta) -> Store:
    """The same store through a connection of its own, which may block without blocking the first one."""
    if isinstance(store, AttemptStore):  # Store.clone() came after torch 2.6
        return AttemptStore(store.attempt, another_connection(store.underlying_store, timeout))
    assert isinstance(store, TCPStore)  # torch's for env://, and ours
    return TCPStore(store.host, store.port, is_master=False, wait_for_workers=False, timeout=timeout)


def serve_store(store: Store, world: World, timeout: timedelta) -> Store:
    """A store that rank 0 serves, for what must go on when the launcher and its store are gone."""
    if world.is_main:
        served = TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=timeout)
        store.set("served", f"{_address_for_others()} {served.port}")
        return served
    while not store.check(["served"]):  # a blocking wait would keep signals from being handled
        time.sleep(_POLL)
    host, port = store.get("served").decode().split()
    return TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=timeout)


def _address_for_others() -> str:
    """This host's address on its way to the launcher's; if that is here, the launcher's own name."""
    launcher = os.environ["MASTER_ADDR"]
    family, kind, protocol, _, address = socket.getaddrinfo(launcher, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # sends nothing
        own = str(probe.getsockname()[0])
    return launcher if own.startswith("127.") or own == "::1" else own
