"""The code that a run was started from: its commit, and what was changed since."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pipeline.runs.record import Git

MAX_PATCH = 1 << 20
"""Bytes of a patch; one cut there says so in its last line."""

_SECONDS = 2.0  # for all calls together: a repository on a slow disk must not hold up a run
_SOURCE = frozenset(
    {".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".sh", ".toml"}
)
_MAX_UNTRACKED = 1 << 17  # bytes of one untracked file: larger ones are data
_MAX_FILES = 500


@dataclass(frozen=True)
class Code:
    """The state of the user's repository."""

    git: Git | None
    """None without git, repository or commit."""
    patch: str = ""
    """What turns the commit into it, untracked source files included; empty where nothing was changed."""


@dataclass(frozen=True)
class _Asking:
    """Calls of git about one folder, with an end to the time that they take."""

    folder: Path
    deadline: float

    def ask(self, *arguments: str | bytes, index: Path | None = None, limit: int = MAX_PATCH) -> bytes | None:
        """What git answers, cut after ``limit`` bytes; None if it is not there, fails, or takes too long."""
        # No lock on the user's index, and no program that the repository's own config names.
        command = [
            "git",
            "--no-optional-locks",
            "-c",
            "core.fsmonitor=false",
            "-C",
            str(self.folder),
            *arguments,
        ]
        environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    timeout=max(0.01, self.deadline - time.monotonic()),
                    env=environment,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired):
                return None
            if done.returncode != 0:
                return None
            output.seek(0)
            return output.read(limit + 1)


def read_code(folder: Path, *, leave_out: Path | None = None) -> Code:
    """The repository around ``folder``.

    Args:
        leave_out: a folder whose untracked files are no code, as the runs are.
    """
    asking = _Asking(folder, time.monotonic() + _SECONDS)
    commit = _text(asking.ask("rev-parse", "--verify", "HEAD"))
    if not commit:
        return Code(None)
    changes = asking.ask("status", "--porcelain", "--untracked-files=no")
    git = Git(commit=commit, dirty=None if changes is None else bool(changes.strip()))
    return Code(git, _patch(asking, leave_out))


def _patch(asking: _Asking, leave_out: Path | None) -> str:
    """The difference from the commit, by an index of its own in which untracked files are announced."""
    top, index = (_text(asking.ask("rev-parse", one)) for one in ("--show-toplevel", "--absolute-git-dir"))
    users = Path(index) / "index"
    if not top or not users.is_file():
        return ""
    asking = _Asking(Path(top), asking.deadline)
    untracked = _untracked(asking, leave_out)
    with tempfile.TemporaryDirectory() as place:
        own = Path(place) / "index"
        shutil.copyfile(users, own)
        if untracked:
            asking.ask("add", "--intent-to-add", "--", *untracked, index=own)
        found = asking.ask("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", index=own)
    if not found:
        return ""
    text = found[:MAX_PATCH].decode(errors="replace")
    return text if len(found) <= MAX_PATCH else f"{text}\n... cut after {MAX_PATCH} bytes\n"


def _untracked(asking: _Asking, leave_out: Path | None) -> list[str]:
    """Source files that git does not know and does not ignore."""
    listed = asking.ask("ls-files", "--others", "--exclude-standard", "-z")
    if not listed:
        return []
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    return [name for name in names if _is_source(asking.folder / name, leave_out)][:_MAX_FILES]


def _is_source(path: Path, leave_out: Path | None) -> bool:
    if path.suffix not in _SOURCE or not path.is_file() or path.stat().st_size > _MAX_UNTRACKED:
        return False
    return leave_out is None or leave_out.resolve() not in path.resolve().parents


def _text(answer: bytes | None) -> str:
    return (answer or b"").decode(errors="replace").strip()
