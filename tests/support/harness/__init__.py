"""Real processes for tests: ranks forked from a warm server, and real torchrun.

Importing torch takes seconds and forking takes milliseconds, so one server process per test
session imports torch and the package once, and every rank is a fork of it::

    pytest  --socket-->  server (torch imported, no threads)
                           fork -> launcher of job 1 (stands in for torchrun: holds the store)
                                     fork -> rank 0, rank 1, ...

Tests use the fixtures in ``harness.fixtures``: ranks, spawn, command, torchrun.
A job ends with the connection to its test: whatever happens to pytest, no rank outlives it.
"""

from harness.client import Job, RankServer, RanksFailed
from harness.group import process_group
from harness.torchrun import Torchrun, start_torchrun

__all__ = ["Job", "RankServer", "RanksFailed", "Torchrun", "process_group", "start_torchrun"]
