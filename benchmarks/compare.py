"""Running the sides in turns, each measurement in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.engine_side import write_config
from benchmarks.meter import Speed
from benchmarks.workloads import Workload, scaled

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Case:
    """A workload at a number of ranks."""

    workload: Workload
    world_size: int


@dataclass(frozen=True)
class Comparison:
    """What either side did, round by round."""

    case: Case
    engine: tuple[Speed, ...]
    loop: tuple[Speed, ...]

    @property
    def ratios(self) -> list[float]:
        """Engine over loop in steps per second: what slows the machine for a whole round slows both."""
        pairs = zip(self.engine, self.loop, strict=True)
        return [engine.steps_per_second / loop.steps_per_second for engine, loop in pairs]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def compare(case: Case, *, rounds: int, scale: float) -> Comparison:
    """Measure both sides ``rounds`` times, taking turns at going first.

    Args:
        scale: factor of the steps on the clock.

    Raises:
        RuntimeError: if a side fails; with its output.
    """
    speeds: dict[str, list[Speed]] = {name: [] for name in SIDES}
    shorter = Case(scaled(case.workload, scale), case.world_size)
    for name in _turns(rounds):
        with TemporaryDirectory() as folder:
            speeds[name].append(_measure(SIDES[name], shorter, Path(folder)))
    return Comparison(case, tuple(speeds["engine"]), tuple(speeds["loop"]))


def _turns(rounds: int) -> Iterator[str]:
    """loop, engine, engine, loop, loop, engine, ...: neither is always the second."""
    for turn in range(rounds):
        yield from list(SIDES)[:: 1 if turn % 2 else -1]


def _engine(case: Case, output: Path) -> list[str]:
    folder = output.parent
    config = write_config(case.workload, case.world_size, folder, output)
    return ["pipeline", "run", str(config), "--runs-dir", str(folder / "runs")]


def _loop(case: Case, output: Path) -> list[str]:
    workload = case.workload
    return ["benchmarks.loop_side", workload.name, str(output), str(workload.steps)]


SIDES: dict[str, Callable[[Case, Path], list[str]]] = {"engine": _engine, "loop": _loop}
"""For each side the module to run, with its arguments."""


def _measure(side: Callable[[Case, Path], list[str]], case: Case, folder: Path) -> Speed:
    """One measurement."""
    output = folder / "speed.json"
    _run([*_launcher(case.world_size), "-m", *side(case, output)])
    return Speed.read(output)


def _launcher(world_size: int) -> Sequence[str]:
    if world_size == 1:
        return [sys.executable]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, "--nproc-per-node", str(world_size)]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
