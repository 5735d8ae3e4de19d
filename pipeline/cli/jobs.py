"""Child processes, so many at a time, to which a signal is passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

_TAIL = 20  # lines of a failed child's output


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    status: int | None
    """None: it was never started, since a signal came first."""
    tail: str = ""
    """The last lines of what it printed, where that was not shown as it came."""


@dataclass
class Jobs:
    """Runs commands and passes SIGINT and SIGTERM on to those that are running.

    Each child has a session of its own: a Ctrl-C at the terminal would reach it a second time otherwise,
    and a second signal ends a run at once.
    """

    at_once: int
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    received: int | None = None
    """The first signal."""
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)

    def run(
        self, commands: Sequence[Sequence[str]], *, started: Callable[[int], None]
    ) -> Iterator[tuple[int, Ended]]:
        """Run all; yields each one's index and end, in the order in which they end."""
        with self._passing_signals(), ThreadPoolExecutor(self.at_once) as pool:
            waiting = {
                pool.submit(self._one, command, index, started): index
                for index, command in enumerate(commands)
            }
            for future in as_completed(waiting):
                yield waiting[future], future.result()

    def _one(self, command: Sequence[str], index: int, started: Callable[[int], None]) -> Ended:
        if self.received is not None:
            return Ended(None)
        started(index)
        with tempfile.TemporaryFile() as output:
            shown = None if self.at_once == 1 else output
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=shown,
                stderr=shown,
                env=self.environment,
                start_new_session=True,
            )
            self._running.add(child)
            if self.received is not None:  # it came while the child was being started
                child.send_signal(self.received)
            status = child.wait()
            self._running.discard(child)
            output.seek(0)
            tail = output.read().decode(errors="replace").splitlines()[-_TAIL:]
        return Ended(status, "\n".join(tail))

    @contextmanager
    def _passing_signals(self) -> Iterator[None]:
        def pass_on(number: int, frame: FrameType | None) -> None:
            self.received = self.received or number
            for child in tuple(self._running):
                child.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
