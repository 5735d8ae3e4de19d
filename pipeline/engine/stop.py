"""After which step to stop, when a signal reaches any of the ranks at any time.

No collective and no device is involved. The rank with the signal tells the others through the
store; a thread on each answers with the step that its rank has begun, and no rank begins a further
one before all have answered. The last step that any has begun is then finished by all, since its
gradients are reduced together, and is the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from pipeline.engine.signals import Signals
from pipeline.errors import RunError


class StopAgreement(Protocol):
    """Asked before every step."""

    def asked(self) -> bool:
        """Whether a stop is asked for, as far as this rank knows yet: what takes long may be left."""
        ...

    def may_begin(self, step: int) -> bool:
        """Whether to take this step (counted from 1); False once a stop is agreed, on all ranks alike.

        Raises:
            RunError: if a rank is gone, so that none can be agreed.
        """
        ...


class StopAlone:
    """One process stops when it has had a signal."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def asked(self) -> bool:
        return self._signals.received is not None

    def may_begin(self, step: int) -> bool:
        return not self.asked()


class StopTogether:
    """This rank's part of the agreement; ``announce`` and ``decide`` are called by the watching thread."""

    def __init__(self, signals: Signals, request: Callable[[], None]) -> None:
        self._signals = signals
        self._request = request
        self._requested = False
        self._changed = threading.Condition()
        self._begun = 0
        self._announced = False
        self._last_step: int | None = None
        self._silent: list[int] = []

    def asked(self) -> bool:
        if self._signals.received is not None and not self._requested:
            self._requested = True
            self._request()
        return self._requested or self._announced

    def may_begin(self, step: int) -> bool:
        asked = self.asked()
        with self._changed:
            if asked or self._announced:
                self._changed.wait_for(lambda: self._last_step is not None or self._silent)
            if self._silent:
                raise RunError(f"ranks {self._silent} did not answer when the others were to stop together")
            if self._last_step is not None and step > self._last_step:
                return False
            self._begun = step
            return True

    def announce(self) -> int:
        """The step that this rank has begun; from now on it begins none before the decision."""
        with self._changed:
            self._announced = True
            return self._begun

    def give_up(self, silent: list[int]) -> None:
        """There is no decision, since these ranks do not answer: dead, or stopped by the system."""
        with self._changed:
            self._silent = silent
            self._changed.notify_all()

    def decide(self, last_step: int) -> None:
        """Take the decision: all ranks finish this step, and begin no further one."""
        with self._changed:
            self._last_step = last_step
            self._changed.notify_all()
