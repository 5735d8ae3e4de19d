"""The warm server: imports torch and the package once, then forks a launcher for every job.

Run as ``python -m harness.server FD``, where FD is its end of a socket pair. Every message on it
carries one descriptor, the connection of a new job; the end of the socket ends the server.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pkgutil
import signal
import socket
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import NoReturn

from harness.launcher import launch

HEAVY = (
    "torch",
    "torch.distributed",
    "torch.distributed.elastic.multiprocessing.errors",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch._dynamo",  # the first step of an optimizer imports it
    "torch._inductor.config",  # switching to deterministic algorithms imports it
    "numpy",
    "numpy.random",
    "pydantic",
    "omegaconf",
    "click",
    "rich.console",
    "rich.progress",
    "rich.table",
    "safetensors.torch",
    "tree_sitter",
    "tree_sitter_toml",
    "entrypoints",
    "pytest",
    "hypothesis",
)


def warm_up() -> None:
    """Import what ranks need. Nothing is computed: the first operation would start threads."""
    for name in HEAVY:
        importlib.import_module(name)
    import pipeline

    for module in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        if module.name.endswith("__main__") or module.name.startswith("pipeline.components."):
            continue  # a component's module is imported by those who name it
        try:
            importlib.import_module(module.name)
        except Exception:  # noqa: BLE001 - the rank that needs the module gets the same error again
            traceback.print_exc()


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    warm_up()
    gc.freeze()  # a collection in a fork need not touch, and so copy, what was imported here
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # launchers are reaped by the system
    control.sendall(f"{threads()}\n".encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return 0
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            leave(launch(Connection(descriptors[0])))
        os.close(descriptors[0])


def leave(status: int) -> NoReturn:
    """End a forked process as an interpreter ends, but for the slow tearing down of all modules."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def threads() -> int:
    """How many threads this process has; forking is safe with one."""
    from pathlib import Path

    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
