"""What runs cost outside the training: the list of thousands of them, and the record of their code."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.processes import ROOT, environment
from pipeline.runs.gitinfo import read_code

RUNS = 10_000
FILES, CHANGED, UNTRACKED = 10_000, 20, 50
ROUNDS = 5


@dataclass(frozen=True)
class Cost:
    """Seconds that one thing takes."""

    what: str
    bar: float
    """What it must not pass."""
    seconds: tuple[float, ...]
    """Of every round."""


def listing_costs(*, runs: int = RUNS) -> list[Cost]:
    """``pipeline runs`` as a shell runs it, the start of Python included: without its index, and with it."""
    with TemporaryDirectory() as folder:
        runs_dir = Path(folder) / "runs"
        _make_runs(runs_dir, runs)
        index = runs_dir / ".listing.json"
        command = [sys.executable, "-m", "pipeline", "runs", "--runs-dir", str(runs_dir)]

        def list_cold() -> None:
            index.unlink(missing_ok=True)
            _call(command)

        return [
            Cost(f"`pipeline runs` of {runs:,} runs, no index", 2.0, _timed(list_cold)),
            Cost(f"`pipeline runs` of {runs:,} runs, with its index", 0.5, _timed(lambda: _call(command))),
        ]


def code_cost(*, files: int = FILES) -> Cost:
    """What a run waits for git: commit, changes and new source files of a large repository."""
    with TemporaryDirectory() as folder:
        _make_repository(Path(folder), files)
        what = f"the code's record: {files:,} files, {CHANGED} of them changed, {UNTRACKED} new"
        return Cost(what, 0.5, _timed(lambda: _check(read_code(Path(folder)).patch)))


def _timed(action: Callable[[], None]) -> tuple[float, ...]:
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return tuple(seconds)


def _make_runs(runs_dir: Path, count: int) -> None:
    """A run of pipeline.toml, and as many that differ from it in name, learning rate and result."""
    words = ["run", "pipeline.toml", "--set", "train.epochs=3", "--runs-dir", str(runs_dir)]
    _call([sys.executable, "-m", "pipeline", *words])
    (first,) = runs_dir.iterdir()
    record, config = json.loads((first / "run.json").read_text()), (first / "config.toml").read_text()
    if "\nlr = 0.01\n" not in config:
        raise RuntimeError(f"{first}/config.toml has another learning rate than 0.01")
    for number in range(1, count):
        fingerprint = f"{number:06x}" + record["fingerprint"][6:]
        folder = runs_dir / f"{first.name.rsplit('-', 1)[0]}-{fingerprint[:6]}"
        folder.mkdir()
        metrics = record["metrics"] | {"eval/accuracy": number / count}
        one = record | {"name": f"run {number}", "fingerprint": fingerprint, "metrics": metrics}
        (folder / "run.json").write_text(json.dumps(one, indent=2))
        (folder / "config.toml").write_text(config.replace("\nlr = 0.01\n", f"\nlr = {number / 1e6}\n"))


def _make_repository(folder: Path, files: int) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    paths = [folder / f"package_{number // 100}" / f"module_{number}.py" for number in range(files)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"""Module {path.stem}."""\n' + "value = 1\n" * 50)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        _call([*git, *words])
    for path in paths[:: files // CHANGED]:
        path.write_text(path.read_text() + "value = 2\n")
    for number in range(UNTRACKED):
        (folder / f"new_{number}.py").write_text("value = 3\n" * 50)


def _call(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")


def _check(patch: str) -> None:
    """A record that gave up early has taken no time."""
    found = patch.count("diff --git")
    if found != CHANGED + UNTRACKED:
        raise RuntimeError(f"the patch has {found} files; expected {CHANGED + UNTRACKED}")
