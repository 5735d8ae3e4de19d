"""LCH-06: affinity and the quotas of control groups, in both of their versions, bound the threads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.engine.cores import usable_cores

V1 = "4:cpuset:/\n3:cpu,cpuacct:/jobs/one\n2:memory:/jobs\n"
V2 = "0::/user.slice/run.scope\n"


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


def laid_out(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        file = folder / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "own").write_text(own)
    return folder / "root", folder / "own"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        (V2, {"cpu.max": "300000 100000\n"}, 3),
        (V2, {"user.slice/run.scope/cpu.max": "250000 100000\n"}, 2),
        (V2, {"user.slice/cpu.max": "50000 100000\n", "user.slice/run.scope/cpu.max": "max 100000\n"}, 1),
        (V2, {"user.slice/run.scope/cpu.max": "max 100000\n"}, 16),
        (V2, {"cpu.max": "9900000 100000\n"}, 16),
        (V2, {}, 16),
        ("0::/../other\n", {"cpu.max": "200000 100000\n"}, 2),
        (
            V1,
            {
                "cpu,cpuacct/jobs/one/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/jobs/one/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/jobs/cpu.cfs_quota_us": "400000\n",
                "cpu,cpuacct/jobs/cpu.cfs_period_us": "100000\n",
                "memory/jobs/cpu.cfs_quota_us": "100000\n",
                "memory/jobs/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
    ],
    ids=[
        "a container",
        "own",
        "around",
        "no limit",
        "more than there is",
        "none",
        "a name of the host",
        "v1",
    ],
)
def test_the_smallest_quota_counts(tmp_path: Path, own: str, files: dict[str, str], cores: int) -> None:
    assert usable_cores(*laid_out(tmp_path, own, files)) == cores


def test_without_control_groups_affinity_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path, tmp_path / "none") == 16
