"""The sides in turns: in each round every one of them, each in processes of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.cause import cause_in
from benchmarks.job import Job
from benchmarks.meter import Speed
from benchmarks.processes import FailedError, train
from benchmarks.sides import BEST, ENGINE, SIDES, TUTORIAL, Side
from benchmarks.workloads import WORKLOADS, Workload

OWN = frozenset({BEST, ENGINE, TUTORIAL})
"""Those whose failure is a fault of this repository."""


@dataclass(frozen=True)
class Case:
    """A workload at a number of ranks."""

    workload_name: str
    world_size: int

    @property
    def workload(self) -> Workload:
        return WORKLOADS[self.workload_name]

    def __str__(self) -> str:
        return f"{self.workload_name}-{self.world_size}"


@dataclass(frozen=True)
class Comparison:
    """What every side did, round by round."""

    case: Case
    speeds: dict[str, list[Speed]]
    """By side, those that could be measured; of equal lengths."""
    missing: dict[str, str]
    """The other sides, with the reason."""

    def joined(self, later: Comparison) -> Comparison:
        """With further rounds; a side that has failed in some is missing."""
        speeds = {name: of + later.speeds[name] for name, of in self.speeds.items() if name in later.speeds}
        missing = {name: why for name, why in (self.missing | later.missing).items() if name not in speeds}
        return Comparison(self.case, speeds, missing)

    def ratios(self, side: str, to: str = BEST) -> list[float]:
        """Side over another in steps per second, per round: what slows the machine for a round slows both."""
        pairs = zip(self.speeds[side], self.speeds[to], strict=True)
        return [one.steps_per_second / other.steps_per_second for one, other in pairs]

    def speed(self, side: str) -> float:
        """Steps per second, the median."""
        return median(speed.steps_per_second for speed in self.speeds[side])


def compare(case: Case, names: Sequence[str], *, rounds: int) -> Comparison:
    """Measure every side ``rounds`` times, in every other round backwards: none is always the first.

    Raises:
        FailedError: if one of the loops or the engine fails; other frameworks are listed as missing.
    """
    missing = {name: "not installed" for name in names if SIDES[name].version is None}
    speeds: dict[str, list[Speed]] = {name: [] for name in names if name not in missing}
    for turn in range(rounds):
        for name in list(speeds)[:: 1 if turn % 2 == 0 else -1]:
            try:
                speeds[name].append(measure(SIDES[name], case))
            except FailedError as error:
                if name in OWN:
                    raise
                print(error, file=sys.stderr)
                missing[name] = cause_in(str(error))
                del speeds[name]
    return Comparison(case, speeds, missing)


def measure(side: Side, case: Case) -> Speed:
    """One measurement.

    Raises:
        FailedError: if the side fails, or makes another number of steps than it was asked for.
    """
    workload = case.workload
    with TemporaryDirectory() as folder:
        job = Job(workload.name, workload.warm_steps + workload.steps, timed=True, folder=folder)
        train(side, job, case.world_size)
        speed = Speed.read(job.result)
    if speed.steps != job.steps:
        raise FailedError(f"{side.name} made {speed.steps} optimizer steps, not {job.steps}")
    return speed
