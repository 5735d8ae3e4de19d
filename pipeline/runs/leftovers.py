"""Hidden names of what is not complete, each marked with the process at work on it.

So what a killed process left can be told from what a living one is writing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from pipeline.runs.process import is_alive, process_table, start_ticks

_NAME = re.compile(r"\.(tmp|old|del)-(.+)-([0-9a-f]{8})-([0-9]+)-([0-9]+)", re.DOTALL)
_SILENCE = 600.0  # seconds without a change after which a process of another host counts as gone


@dataclass(frozen=True)
class Leftover:
    """A hidden file or folder."""

    path: Path
    kind: str
    """``tmp``: being written; ``old``: moved away for a replacement; ``del``: being deleted."""
    name: str
    """What it was to become, or has been."""
    table: str
    """What its maker's number counts in, as a short hash."""
    pid: int
    started: int | None

    @property
    def mine(self) -> bool:
        """Whether this very process made it."""
        me = os.getpid()
        return (self.table, self.pid, self.started) == (_short(process_table()), me, start_ticks(me))

    @property
    def abandoned(self) -> bool:
        """Whether the process that made it is gone; of another host's, only the age is known."""
        if self.table == _short(process_table()):
            return not is_alive(self.pid, self.started)
        return time.time() - _last_change(self.path) > _SILENCE


def hidden_name(kind: str, name: str) -> str:
    """What this process calls something that is on its way to or from ``name``."""
    pid = os.getpid()
    return f".{kind}-{name}-{_short(process_table())}-{pid}-{start_ticks(pid) or 0}"


def find_leftovers(folder: Path) -> list[Leftover]:
    """All that lie in a folder, of living processes too; none where there is no such folder."""
    if not folder.is_dir():
        return []
    matches = [(path, _NAME.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [
        Leftover(path, match[1], match[2], match[3], int(match[4]), int(match[5]) or None)
        for path, match in matches
        if match is not None
    ]


def clear_leftovers(folder: Path) -> None:
    """Remove what is abandoned there; what cannot be removed, as another user's, does no harm."""
    for leftover in find_leftovers(folder):
        if leftover.abandoned:
            remove(leftover.path, ignore_errors=True)


def remove(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a file, a link or a folder with all in it; nothing there is fine.

    Raises:
        OSError: unless they are ignored.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=ignore_errors)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        if not ignore_errors:
            raise


def _last_change(path: Path) -> float:
    paths = [path, *path.iterdir()] if path.is_dir() and not path.is_symlink() else [path]
    return max(one.lstat().st_mtime for one in paths)


def _short(table: str) -> str:
    return hashlib.sha256(table.encode()).hexdigest()[:8]
