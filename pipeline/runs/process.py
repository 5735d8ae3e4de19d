"""Which process wrote something, and whether it still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process that can be told from a later one of the same number, and from one of a host of this name."""

    host: str
    table: str | None
    """What its number counts in (``process_table``); None: not known."""
    pid: int
    started: int | None
    """Clock ticks after the host's start, where the system tells."""

    @property
    def is_here(self) -> bool:
        """Whether its number means something here: the host's name may have changed, or be another's too."""
        if self.table is None:
            return self.host == socket.gethostname()
        return self.table == process_table()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, of a process that ``is_here``."""
        return is_alive(self.pid, self.started)


def this_process() -> Process:
    """The process that asks."""
    pid = os.getpid()
    return Process(socket.gethostname(), process_table(), pid, start_ticks(pid))


@cache
def process_table() -> str:
    """Names what process numbers count in: containers of one host name may have tables of their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks after the host's start; None where it cannot be told."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None  # field 22 of /proc/PID/stat


def is_alive(pid: int, started: int | None = None) -> bool:
    """Whether process ``pid`` of this host runs, and is the one that began at ``started``."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it lives, as another user's
    fields = _stat_fields(pid)
    if fields is None:
        return True
    return fields[0] not in "ZX" and started in (None, int(fields[19]))


def is_stopped(pid: int) -> bool:
    """Whether process ``pid`` of this host is stopped, as by SIGSTOP or a debugger."""
    fields = _stat_fields(pid)
    return fields is not None and fields[0] in "Tt"


def _stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat from the state on (field 3); None without /proc or without the process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # the command before it may hold spaces and brackets
