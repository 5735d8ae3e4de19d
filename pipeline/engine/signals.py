"""Signals that end a run; knows no torch, so that it can be installed before torch is imported."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from types import FrameType
from typing import Any

_ONE_REQUEST = 1.0
"""Seconds in which signals are one request: Slurm signals the ranks, and the launcher, which passes it on."""

STOPPED = 75
"""Exit status of a run that a signal stopped and that can be resumed (EX_TEMPFAIL)."""


class EarlyStop(BaseException):
    """A signal before the first step: there is nothing to save, and the process ends with STOPPED.

    No SystemExit: those who import foreign code take one for that code's own failure.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal_name(number))
        self.number = number


class Phase(Enum):
    """What a signal means just now."""

    STARTING = auto()
    """There is nothing to save: it ends the process at once."""
    TRAINING = auto()
    """The first one asks for a stop after the step, a second one ends the process at once."""
    SAVING = auto()
    """A checkpoint is being written: as in training, but no signal ends the process."""
    ENDING = auto()
    """The process is about to end by itself, and has its end to record: no signal matters."""


@dataclass
class Signals:
    """What this process has been asked by signals."""

    received: int | None = None
    """The first signal that came while the loop was running."""
    phase: Phase = Phase.STARTING
    _first: float = 0.0
    """When it came, by the monotonic clock."""
    _previous: dict[int, Any] = field(default_factory=dict)

    @contextmanager
    def installed(self, names: Iterable[str]) -> Iterator[None]:
        """Handle these signals inside ("TERM", "INT", ...); afterwards as before."""
        self.install(names)
        try:
            yield
        finally:
            self.uninstall()

    def install(self, names: Iterable[str]) -> None:
        """Handle these signals, and no others that were handled until now."""
        self.uninstall()
        for name in names:
            number = signal.Signals[f"SIG{name}"]
            self._previous[number] = signal.signal(number, self._handle)

    def uninstall(self) -> None:
        """Put back the handlers that were there."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    @contextmanager
    def undisguised(self) -> Iterator[None]:
        """Inside, an error that foreign code has made of EarlyStop is EarlyStop again.

        A handler runs wherever Python happens to be, and what it raises there may be turned into
        something else: pydantic's core takes it for a fault of the schema that it is building.
        """
        try:
            yield
        except EarlyStop:
            raise
        except BaseException as error:
            if self.phase is Phase.STARTING and self.received is not None:
                raise EarlyStop(self.received) from error
            raise

    def ask(self) -> None:
        """Stop as SIGTERM would; called in a thread, for a reason that is no signal."""
        if self.phase is Phase.STARTING:
            os.kill(os.getpid(), next(iter(self._previous), signal.SIGTERM))  # any that is handled
        elif self.received is None:
            self.received = signal.SIGTERM

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.phase is Phase.STARTING:
            if self.received is not None and time.monotonic() - self._first <= _ONE_REQUEST:
                return  # raised again it would come out of what ends this process for the first
            self.received = number  # foreign code may swallow the exception: then the first step sees it
            self._first = time.monotonic()
            raise EarlyStop(number)
        if self.phase is Phase.ENDING:
            return
        if self.received is None:
            self.received = number
            self._first = time.monotonic()
        elif self.phase is Phase.TRAINING and time.monotonic() - self._first > _ONE_REQUEST:
            os._exit(STOPPED)


def signal_name(number: int) -> str:
    """``SIGTERM`` for 15."""
    return signal.Signals(number).name
