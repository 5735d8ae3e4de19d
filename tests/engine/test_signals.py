"""What a signal means before the first step."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pipeline.engine.signals import EarlyStop, Signals


def test_a_request_delivered_twice_at_the_start_stops_once(monkeypatch):
    """LCH-02: the launcher passes it on while the first is acted on; a later one counts again."""

    def deliver() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    begun = time.monotonic()
    signals = Signals()
    with signals.installed(["USR1"]):
        monkeypatch.setattr(time, "monotonic", lambda: begun)
        with pytest.raises(EarlyStop):
            deliver()
        deliver()
        monkeypatch.setattr(time, "monotonic", lambda: begun + 1.5)
        with pytest.raises(EarlyStop):
            deliver()
    assert signals.received == signal.SIGUSR1
