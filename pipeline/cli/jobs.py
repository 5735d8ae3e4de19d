"""Child processes, so many at a time, to which a signal is passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType

from pipeline.engine.signals import STOPPED
from pipeline.errors import PipelineError

_TAIL = 20  # lines of a failed child's output
_LOOK = 0.5  # seconds between two looks at what a job waits for


@dataclass(frozen=True)
class Job:
    """A command to run."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it has besides that of all jobs."""
    must_wait: Callable[[], bool] = lambda: False
    """Whether it cannot begin yet; it holds its place among the jobs meanwhile."""


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    status: int | None
    """None: it was never started, since a signal came first."""
    tail: str = ""
    """The last lines of what it printed, where that was not shown as it came."""

    @property
    def is_failure(self) -> bool:
        """Whether it neither is done nor can go on."""
        return self.status not in (None, 0, STOPPED)

    @property
    def is_killed(self) -> bool:
        """Whether a signal has ended it before it could end by itself."""
        return self.status is not None and self.status < 0

    @property
    def how(self) -> str:
        """In words."""
        if self.status is None:
            return "not started"
        if self.status == 0:
            return "done"
        if self.status == STOPPED:
            return "stopped"
        how = (
            f"failed with exit status {self.status}"
            if self.status > 0
            else f"killed by signal {-self.status}"
        )
        return f"{how}\n{self.tail}" if self.tail else how


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

    def run(self, jobs: Iterable[Job], *, started: Callable[[int], None]) -> Iterator[tuple[int, Ended]]:
        """Run all; yields each one's index and end, in the order in which they end.

        A job is drawn from ``jobs`` when there is room for it, after the caller has seen the one
        that made room. An error in the drawing comes out once those that are running have ended.
        """
        refused: PipelineError | None = None
        numbered = enumerate(jobs)
        waiting: dict[Future[Ended], int] = {}
        with self._passing_signals(), ThreadPoolExecutor(self.at_once) as pool:
            while True:
                try:
                    for index, job in islice(numbered, self.at_once - len(waiting)):
                        waiting[pool.submit(self._one, job, index, started)] = index
                except PipelineError as error:
                    refused = error
                if not waiting:
                    break
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        if refused:
            raise refused

    def _one(self, job: Job, index: int, started: Callable[[int], None]) -> Ended:
        while self.received is None and job.must_wait():
            time.sleep(_LOOK)
        if self.received is not None:
            return Ended(None)
        started(index)
        with tempfile.TemporaryFile() as output:
            shown = None if self.at_once == 1 else output
            child = subprocess.Popen(
                job.words,
                stdin=subprocess.DEVNULL,
                stdout=shown,
                stderr=shown,
                env={**self.environment, **job.environment},
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
