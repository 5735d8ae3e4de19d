"""The test's side: start the server, ask it for jobs, look after them."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.marked import MARK, kill_marked, new_mark
from harness.rank import SHOW_STACKS
from harness.request import Call, Command, Request

TIMEOUT_SECONDS = 120.0  # generous: it only ends jobs that hang
PATH = os.pathsep.join(sys.path)
"""As the session began. Loading a local file adds its folder, which no later test must see."""
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # so that forking is safe


class RanksFailed(AssertionError):
    """A job that did not end well, with what each of its ranks wrote."""


class Job:
    """The ranks of one request, from their birth to their exit statuses."""

    def __init__(self, request: Request, connection: Connection) -> None:
        self.request = request
        self._connection = connection
        self._ends: dict[int, int] = {}
        connection.send(request)
        self.pids: list[int] = []
        """The process of each rank; it may have ended already."""
        if not connection.poll(TIMEOUT_SECONDS):
            self.close()
            raise RanksFailed("the server did not answer")
        self.pids = self._receive()

    def wait(self, timeout: float = TIMEOUT_SECONDS) -> list[int]:
        """The exit status of every rank, negative for a signal.

        Raises:
            RanksFailed: if some rank is still there after ``timeout`` seconds; all are killed then.
        """
        deadline = time.monotonic() + timeout
        while len(self._ends) < len(self.pids):
            if not self._connection.poll(max(0.0, deadline - time.monotonic())):
                hanging = sorted(set(range(len(self.pids))) - set(self._ends))
                self._show_stacks(hanging)
                self.close()
                raise RanksFailed(f"ranks {hanging} did not end within {timeout} s\n{self.report()}")
            self._take_message()
        return [self._ends[rank] for rank in range(len(self.pids))]

    def statuses(self) -> dict[int, int]:
        """The exit statuses of the ranks that have ended by now."""
        while len(self._ends) < len(self.pids) and self._connection.poll():
            self._take_message()
        return dict(self._ends)

    def _show_stacks(self, hanging: list[int]) -> None:
        for rank in hanging:
            self.kill(rank, SHOW_STACKS)
        time.sleep(0.5)  # a rank that cannot answer says nothing, so there is no event to wait for

    def _take_message(self) -> None:
        rank, status = self._receive()
        self._ends[rank] = status

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, ConnectionError):
            self.close()
            log = (self.request.folder.parent / "server.log").read_text(errors="replace")
            raise RanksFailed(f"the job's launcher is gone\n{self.report()}\n--- server\n{log}") from None

    def results(self, timeout: float = TIMEOUT_SECONDS) -> list[Any]:
        """What the function returned in each rank.

        Raises:
            RanksFailed: if a rank did not return, with every rank's output.
        """
        statuses = self.wait(timeout)
        if any(statuses):
            raise RanksFailed(f"exit statuses {statuses}\n{self.report()}")
        return [
            pickle.loads((self.request.folder / f"rank-{rank}.result").read_bytes())
            for rank in range(len(statuses))
        ]

    def kill(self, rank: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send one rank a signal, unless it has ended."""
        if rank not in self.statuses():
            os.kill(self.pids[rank], number)

    def stdout(self, rank: int) -> str:
        return self._read(rank, "out")

    def stderr(self, rank: int) -> str:
        return self._read(rank, "err")

    def output(self, rank: int) -> str:
        """Standard output, then standard error, as written so far."""
        return self.stdout(rank) + self.stderr(rank)

    def report(self) -> str:
        """Every rank's output, for the message of a failure."""
        return "\n".join(
            f"--- rank {rank}: {self._ends.get(rank, 'killed by the harness')}\n{self.output(rank)}"
            for rank in range(self.request.world_size)
        )

    def close(self) -> None:
        """Kill what is left of the job, and everything it started."""
        self._connection.close()  # the launcher then kills its whole group
        kill_marked(self.request.environ[MARK])

    def _read(self, rank: int, ending: str) -> str:
        file = self.request.folder / f"rank-{rank}.{ending}"
        return file.read_text(errors="replace") if file.exists() else ""


class RankServer:
    """The warm server; one is enough for a whole test session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs = 0
        self._control, theirs = socket.socketpair()
        with theirs, (folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.server", str(theirs.fileno())],
                env=os.environ | SINGLE_THREADED | {"PYTHONPATH": PATH},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is the test session's to handle
            )
        answer = self._control.recv(64)
        if not answer:
            raise RanksFailed((folder / "server.log").read_text(errors="replace"))
        self.threads = int(answer)
        """How many threads the server had when it was ready to fork."""

    def job(
        self,
        world_size: int,
        target: Call | Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        launcher: bool = True,
        end_together: bool = True,
    ) -> Job:
        """Start ranks; see ``Request`` for the arguments."""
        self._jobs += 1
        folder = self._folder / f"job-{self._jobs}"
        folder.mkdir(parents=True)
        environ = os.environ | {MARK: new_mark()} | dict(env or {})
        request = Request(target, world_size, environ, cwd or Path.cwd(), folder, launcher, end_together)
        ours, theirs = Pipe()
        with theirs:
            socket.send_fds(self._control, [b"j"], [theirs.fileno()])
        return Job(request, ours)

    def spawn(self, world_size: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> Job:
        """Start ``function(*arguments)`` in every rank; options are those of ``job``."""
        return self.job(world_size, Call.of(function, arguments), **options)

    def command(self, world_size: int, arguments: Sequence[object], **options: Any) -> Job:
        """Start ``pipeline ARGUMENTS`` in every rank; options are those of ``job``."""
        return self.job(world_size, Command(tuple(map(str, arguments))), **options)

    def close(self) -> None:
        """End the server; jobs end with their own connections."""
        self._control.close()
        self._process.wait()
