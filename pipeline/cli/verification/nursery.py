"""A process that has imported torch, computed nothing, and forks the ranks of one trial after another.

Importing takes seconds and forking milliseconds. It knows no config: every rank reads it anew, imports
the components it names, and joins the others through a store, as under a launcher.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TextIO

from pipeline.cli.verification.trial import Order
from pipeline.engine.collector import collector_at_rest

READY = "ready"
BROKEN = 3
"""Exit status of a rank that failed outside of any component."""

_HEAVY = (
    "torch",
    "torch._dynamo",  # the first step of an optimizer imports it
    "torch._inductor.config",  # switching to deterministic algorithms imports it, and torch._dynamo
    "torch.utils.data",
    "tree_sitter_toml",
    "omegaconf",
    "safetensors.torch",
    "pipeline.cli.loading",
    "pipeline.cli.verification.rank",
)
_LAST_WORDS = 20.0  # seconds that ranks have when another has failed
_POLL = 0.01  # seconds


def main() -> None:
    """Serve orders, a line of JSON each, from standard input until its end."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever is printed in here is no answer
    parent = os.getppid()
    with collector_at_rest():
        for name in _HEAVY:
            importlib.import_module(name)
    gc.freeze()  # a collection in a fork need not touch, and so copy, what was imported here
    answers.write(f"{READY}\n")
    for line in requests:
        answers.write(json.dumps(_conduct(Order.from_dict(json.loads(line)), parent)) + "\n")


def _conduct(order: Order, parent: int) -> list[int]:
    """Fork a launcher, which holds the ranks' store, and give every rank's exit status."""
    reading, writing = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        os.close(reading)
        try:
            answer = json.dumps(_launch(order))
        except BaseException:  # noqa: BLE001 - whatever it was, this fork must not go on as the nursery
            traceback.print_exc()
            _leave(BROKEN)
        os.write(writing, answer.encode())
        _leave(0)
    os.close(writing)
    while not os.waitpid(launcher, os.WNOHANG)[0]:
        if os.getppid() != parent:  # whoever wanted to know is gone
            os.killpg(0, signal.SIGKILL)
        time.sleep(_POLL)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    statuses: list[int] = json.loads(text) if text else [BROKEN] * order.world_size
    return statuses


def _launch(order: Order) -> list[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    ranks = {_fork_rank(order, rank, listener): rank for rank in range(order.world_size)}
    store = _serve_store(listener) if order.world_size > 1 else None  # a thread: only after the forks
    statuses = [0] * order.world_size
    deadline: float | None = None
    waiting = dict(ranks)
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in waiting:
            statuses[waiting.pop(pid)] = os.waitstatus_to_exitcode(status)
            if status and deadline is None:
                deadline = time.monotonic() + _LAST_WORDS
        elif deadline is not None and time.monotonic() > deadline:
            for left in waiting:
                os.kill(left, signal.SIGKILL)
            deadline = None
        else:
            time.sleep(_POLL)
    del store
    return statuses


def _fork_rank(order: Order, rank: int, listener: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        _redirect(Path(order.folder) / f"rank-{rank}.log")
        _set_environment(_variables(order.world_size, rank, listener.getsockname()[1]))
        listener.close()
        from pipeline.cli.verification.rank import take_part

        status = take_part(order)
    except BaseException:  # noqa: BLE001 - it is in the log, and the status tells
        traceback.print_exc()
        status = BROKEN
    return _leave(status)


def _redirect(file: Path) -> None:
    """Let what components print go to a file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    sys.stdout, sys.stderr = (_lines(standard) for standard in (1, 2))


def _lines(descriptor: int) -> TextIO:
    return os.fdopen(descriptor, "w", buffering=1, closefd=False)


def _variables(world_size: int, rank: int, port: int) -> Mapping[str, str | None]:
    """What torchrun sets; None takes a variable out, since one process has no launcher."""
    several = world_size > 1
    values: dict[str, Any] = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": world_size,
        "LOCAL_WORLD_SIZE": world_size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    return {name: str(value) if several else None for name, value in values.items()}


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _serve_store(listener: socket.socket) -> object:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    port = listener.getsockname()[1]
    return TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        timeout=timedelta(minutes=1),
        wait_for_workers=False,
        use_libuv=False,  # which takes no open socket in torch 2.6
        master_listen_fd=listener.detach(),
    )


def _leave(status: int) -> NoReturn:
    """End a fork at once: nothing of the nursery's is its to tear down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
