"""The parent of a job's ranks, in torchrun's place: the store, the environment, the exit codes."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
import uuid
from datetime import timedelta
from multiprocessing.connection import Connection, wait

from harness.rank import run_rank
from harness.request import Request


def launch(connection: Connection) -> int:
    """Fork the ranks that the first message asks for; tell their pids, then each one's exit status.

    Sends the list of pids, and ``(rank, status)`` as each rank ends, negative for a signal. It ends
    when the other end closes the connection, and with it whatever is left of the job.
    """
    request: Request = connection.recv()
    os.setsid()  # a group of its own, so that it can be killed with everything it started
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)  # bound from here on: no race for the port
    pids: list[int] = []
    for rank in range(request.world_size):
        environ = _environment(request, rank, listener.getsockname()[1])
        pid = os.fork()
        if pid == 0:
            connection.close()
            listener.close()
            return run_rank(request, rank, environ)
        pids.append(pid)
    try:
        connection.send(pids)
        store = _serve_store(listener) if request.launcher else None  # a thread, so only after the forks
        _tell_ends(connection, pids, request.end_together)
        del store
    except BaseException:  # noqa: BLE001 - whatever it was, the ranks must not outlive it
        traceback.print_exc()
        sys.stderr.flush()
    os.killpg(0, signal.SIGKILL)
    return 0


def _tell_ends(connection: Connection, pids: list[int], end_together: bool) -> None:
    deaths, wake = socket.socketpair()
    deaths.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ranks = {pid: rank for rank, pid in enumerate(pids)}
    while True:
        while ranks and (ended := os.waitpid(-1, os.WNOHANG))[0]:  # first: some may be gone already
            status = os.waitstatus_to_exitcode(ended[1])
            connection.send((ranks.pop(ended[0]), status))
            if status and end_together:
                for pid in ranks:
                    os.kill(pid, signal.SIGTERM)
        ready = wait([connection, deaths])
        if connection in ready:  # nothing is ever sent here, so it was closed
            return
        deaths.recv(4096)


def _serve_store(listener: socket.socket) -> object:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    port = listener.getsockname()[1]
    return TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        timeout=timedelta(seconds=10),
        wait_for_workers=False,
        use_libuv=False,  # which takes no open socket in torch 2.6
        master_listen_fd=listener.detach(),
    )


def _environment(request: Request, rank: int, port: int) -> dict[str, str]:
    """The request's environment with what torchrun (one host, no restarts) adds to it."""
    if not request.launcher:
        return request.environ
    world_size = str(request.world_size)
    environ = request.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "ROLE_RANK": str(rank),
        "ROLE_NAME": "default",
        "GROUP_RANK": "0",
        "WORLD_SIZE": world_size,
        "LOCAL_WORLD_SIZE": world_size,
        "ROLE_WORLD_SIZE": world_size,
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": uuid.uuid5(uuid.NAMESPACE_URL, str(request.folder)).hex,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    if request.world_size > 1:
        environ.setdefault("OMP_NUM_THREADS", "1")
    return environ
