"""The measurements as they are kept, a file a case, from which the page is made anew at any time."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.compare import Case, Comparison
from benchmarks.meter import Speed
from benchmarks.processes import ROOT
from benchmarks.sides import SIDES

FOLDER = ROOT / "benchmarks" / "measured"


@dataclass(frozen=True)
class Circumstances:
    """Where, when and of what something was measured."""

    date: str
    """UTC, to the minute."""
    commit: str
    machine: str
    versions: dict[str, str]
    """Of torch and the other frameworks, by distribution."""

    def lines(self, *more: str) -> list[str]:
        """As a list on a page, with what else there is to say of the machine."""
        return [
            f"- date: {self.date} UTC, commit {self.commit}",
            f"- machine: {', '.join([self.machine, *more])}",
        ]


@dataclass(frozen=True)
class Measured:
    """A comparison and its circumstances."""

    comparison: Comparison
    circumstances: Circumstances

    def write(self, folder: Path = FOLDER) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.comparison.case}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Measured:
        tree = json.loads(path.read_text())
        comparison = tree["comparison"]
        speeds = {name: [Speed(**speed) for speed in of] for name, of in comparison["speeds"].items()}
        return cls(
            Comparison(Case(**comparison["case"]), speeds, comparison["missing"]),
            Circumstances(**tree["circumstances"]),
        )


def add(measured: Measured, folder: Path = FOLDER) -> None:
    """Write a measurement; joined to the one that is kept where that is of the same commit and versions."""
    for before in read_all([measured.comparison.case], folder):
        then, now = before.circumstances, measured.circumstances
        if (then.commit, then.versions, then.machine) == (now.commit, now.versions, now.machine):
            measured = Measured(before.comparison.joined(measured.comparison), now)
    measured.write(folder)


def read_all(cases: Sequence[Case], folder: Path = FOLDER) -> list[Measured]:
    """Those of the cases that have been measured."""
    paths = [folder / f"{case}.json" for case in cases]
    return [Measured.read(path) for path in paths if path.exists()]


def here_and_now() -> Circumstances:
    import torch

    installed = {side.distribution: side.version for side in SIDES.values() if side.distribution}
    versions = {"torch": torch.__version__, **{name: of for name, of in installed.items() if of}}
    return Circumstances(f"{datetime.now(UTC):%Y-%m-%d %H:%M}", _commit(), machine(), versions)


def machine() -> str:
    """The processor and Python, as a page shows them."""
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _commit() -> str:
    """HEAD, with a + where something else is checked out."""
    asked = ["git", "describe", "--always", "--dirty=+", "--abbrev=9", "--exclude=*"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
