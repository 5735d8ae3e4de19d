"""The page of results: a table a workload, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.compare import Comparison
from benchmarks.measured import Measured
from benchmarks.same import Distance
from benchmarks.sides import BEST, SIDES, TUTORIAL

HEAD = """\
# Steps per second: the engine, hand-written loops and other frameworks

Written by `make bench`; [docs/performance.md](../docs/performance.md) explains the numbers. In each round
every side trains the same job once, each in fresh processes; all have one thread per rank, and two ranks are
started by torchrun. Start-up is not on the clock. A speed is that of the fastest tenth of the windows between
two readings of the clock, the median over the rounds; *whole* is that from the first reading to the last.
A ratio is the median over the rounds of a side's speed by another's, in brackets the lowest and the
highest. CPU is the processor time of a step on rank 0, waiting for other ranks included. *First step* is the
time from the start of the first process, torchrun's where there are two ranks, to the end of the first step.
"""
COLUMNS = (
    "side",
    "steps/s",
    "by the best loop's",
    "by the tutorial loop's",
    "whole, steps/s",
    "CPU, us/step",
    "first step, s",
)


def page(measured: Sequence[Measured], same: Sequence[Distance]) -> str:
    """The results as Markdown."""
    parts = [HEAD, *map(_section, measured), *([_same(same)] if same else [])]
    return "\n".join(parts)


def _section(measured: Measured) -> str:
    comparison, here = measured.comparison, measured.circumstances
    case = comparison.case
    rounds = max(map(len, comparison.speeds.values()))
    return "\n".join(
        [
            f"## {case.workload_name}, {case.world_size} rank{'s' * (case.world_size > 1)}",
            "",
            f"{case.workload.about}.",
            f"Measured {here.date} UTC at commit {here.commit}, {_rounds(rounds)}; {here.machine};",
            f"{', '.join(f'{name} {of}' for name, of in here.versions.items())}.",
            "",
            _line(COLUMNS),
            _line(["---"] * len(COLUMNS)),
            *(_line(_row(comparison, side)) for side in SIDES if side in comparison.speeds),
            *(_line(_absence(side, why)) for side, why in comparison.missing.items()),
            "",
        ]
    )


def _rounds(rounds: int) -> str:
    return f"{rounds} rounds" if rounds > 1 else "one round: a look, not a measurement"


def _row(comparison: Comparison, side: str) -> list[str]:
    speeds = comparison.speeds[side]
    return [
        side,
        f"{comparison.speed(side):.1f}",
        _ratio(comparison, side, BEST),
        _ratio(comparison, side, TUTORIAL),
        f"{median(speed.overall for speed in speeds):.1f}",
        f"{median(speed.cpu_microseconds for speed in speeds):.0f}",
        f"{median(speed.first_step for speed in speeds):.1f}",
    ]


def _absence(side: str, why: str) -> list[str]:
    return [side, why.replace("|", r"\|"), *[""] * (len(COLUMNS) - 2)]


def _ratio(comparison: Comparison, side: str, to: str) -> str:
    if side == to or to not in comparison.speeds:
        return ""
    ratios = comparison.ratios(side, to)
    return f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def _same(found: Sequence[Distance]) -> str:
    return "\n".join(
        [
            "## The same mathematics",
            "",
            "From the same first parameters, over the same samples in the dataset's order, 30 steps: the",
            "largest difference of a parameter from the best loop's, and the largest way of a parameter.",
            "",
            _line(("workload", "ranks", "side", "difference", "way")),
            _line(["---"] * 5),
            *(
                _line(
                    (
                        one.case.workload_name,
                        str(one.case.world_size),
                        one.side,
                        f"{one.apart:.1e}" if one.apart else "0",
                        f"{one.travelled:.1e}",
                    )
                )
                for one in found
                if one.side != BEST
            ),
            "",
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
