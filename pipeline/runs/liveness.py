"""Whether a run that says "running" still does."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.runs.layout import RunFolder
from pipeline.runs.process import Process

if TYPE_CHECKING:
    from pipeline.runs.record import Record, Status

SILENCE = 600.0
"""Seconds without a sign of life after which a run of another host counts as gone."""
_SILENCE_OF_A_NAMESAKE = 180.0
"""The same for a host of this one's name: it is likely this one before it was started anew."""


def status_now(folder: RunFolder, record: Record) -> Status:
    """The recorded status, or ``interrupted`` where it says running and the process is gone.

    On this host the process itself is looked for. Of another host's run, or another container's, only
    the age of its files is known, so a run is ``beating``.
    """
    if record.status != "running":
        return record.status
    return "running" if is_running(folder, record.process) else "interrupted"


def is_running(folder: RunFolder, process: Process) -> bool:
    """Whether the process that was recorded as running a run still does."""
    if process.is_here:
        return process.is_alive
    same_name = process.host == socket.gethostname()
    return time.time() - last_sign(folder) < (_SILENCE_OF_A_NAMESAKE if same_name else SILENCE)


@contextmanager
def beating(folder: RunFolder, interval: float = SILENCE / 10) -> Iterator[None]:
    """Inside, give readers on other hosts a sign of life every ``interval`` seconds, by the record's time."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(interval):
            os.utime(folder.record)

    threading.Thread(target=beat, name="beating", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def last_sign(folder: RunFolder) -> float:
    """When the run last wrote its record or its metrics, in seconds since 1970; 0 if never."""
    times = [path.stat().st_mtime for path in (folder.record, folder.metrics) if path.exists()]
    return max(times, default=0.0)


def duration(folder: RunFolder, record: Record) -> float:
    """Seconds spent in all attempts; one in progress counts to now, an interrupted one to its last sign."""
    running = status_now(folder, record) == "running"
    total = 0.0
    for attempt in record.attempts:
        if attempt.ended is not None:
            end = attempt.ended.timestamp()
        else:
            end = time.time() if running and attempt is record.attempts[-1] else last_sign(folder)
        total += max(0.0, end - attempt.started.timestamp())
    return total
