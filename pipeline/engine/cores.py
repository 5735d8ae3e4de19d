"""How many cores this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def usable_cores(root: Path = _ROOT, own: Path = _OWN) -> int:
    """Cores that this process may use: its affinity, and the CPU quotas of its control groups.

    Args:
        root: where control groups are mounted, of version 1 or 2.
        own: the file that names those of this process.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in _groups(root, own):
        quota = _quota(group)
        if quota is not None:
            cores = min(cores, max(1, int(quota)))
    return cores


def _groups(root: Path, own: Path) -> Iterator[Path]:
    """The folders of this process's control groups, each followed by those that it is in.

    In a container the names may be those of the host, which are not there; the root then is its own group.
    """
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:  # another system
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        for place in (name, *(str(parent) for parent in Path(name).parents)):
            yield top / place.lstrip("/")


def _quota(group: Path) -> float | None:
    """Cores' worth of time that a control group gets; None: no limit, or none that can be read."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text("ascii").split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text("ascii").strip()
            period = (group / "cpu.cfs_period_us").read_text("ascii")
    except (OSError, ValueError):  # not there, or not for this user
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)
