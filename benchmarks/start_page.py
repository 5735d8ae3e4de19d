"""The page of how long commands take to answer, and runs to make their first step."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.compare import Comparison
from benchmarks.figure import Figure, table
from benchmarks.measured import here_and_now
from benchmarks.sides import ENGINE, TUTORIAL
from benchmarks.start import Answer

HEAD = """\
# How long commands take to answer

Written by `python -m benchmarks start`: commands that train nothing, each in a process of its own, from its
start to its end, with the files of Python compiled before.
"""
FIRST_STEPS = """\
From the start of the first process, torchrun's where there are two ranks, to the end of the first optimizer
step of the linear workload: the engine and the loop of torch's tutorials in turns.
"""


def start_page(answers: Sequence[Answer], first_steps: Sequence[Comparison]) -> str:
    """What starting costs, as Markdown."""
    lines = [
        HEAD,
        *here_and_now().lines(),
        "",
        "| `pipeline` | times | median, s | least, s | most, s |",
        "|---|---|---|---|---|",
        *(
            f"| {one.command} | {len(one.seconds)} | {one.median:.3f} | {min(one.seconds):.3f} "
            f"| {max(one.seconds):.3f} |"
            for one in answers
        ),
        "",
        FIRST_STEPS,
        *table(figure for comparison in first_steps for figure in _first_steps(comparison)),
    ]
    return "\n".join(lines) + "\n"


def _first_steps(comparison: Comparison) -> list[Figure]:
    """Seconds of the loop and of the engine, and by how many the engine is later, round by round."""
    ranks = comparison.case.world_size
    case = f"first step, {ranks} rank{'s' * (ranks > 1)}"
    loop, own = (tuple(speed.first_step for speed in comparison.speeds[side]) for side in (TUTORIAL, ENGINE))
    later = tuple(one - other for one, other in zip(own, loop, strict=True))
    return [
        Figure(f"{case}: the tutorial loop", "s", None, loop),
        Figure(f"{case}: the engine", "s", None, own),
        Figure(f"{case}: the engine behind the tutorial loop", "s", 0.8, later),
    ]
