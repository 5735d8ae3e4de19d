"""The commit that a run was started from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pipeline.runs.record import Git

_TIMEOUT = 2.0  # seconds for each of two calls: a repository on a slow disk must not hold up a run


def read_git(folder: Path) -> Git | None:
    """Commit and dirty flag of the repository around ``folder``; None without git, repository or commit."""
    commit = _ask(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    changes = _ask(folder, "status", "--porcelain", "--untracked-files=no")
    return Git(commit=commit, dirty=None if changes is None else bool(changes))


def _ask(folder: Path, *arguments: str) -> str | None:
    """What git answers; None if it is not there, fails, or takes too long."""
    # No lock on the user's index, and no program that the repository's own config names.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode(errors="replace").strip() if answer.returncode == 0 else None
