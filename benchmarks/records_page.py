"""The page of what runs cost outside the training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.measured import here_and_now
from benchmarks.records import ROUNDS, Cost

HEAD = f"""\
# Runs, listed and recorded

Written by `python -m benchmarks records`, {ROUNDS} rounds each. The runs are copies of one of pipeline.toml
that differ in name, learning rate and result. A command is timed as a shell runs it, Python's start included.
"""


def records_page(costs: Sequence[Cost]) -> str:
    """What it costs, as Markdown."""
    lines = [
        HEAD,
        *here_and_now().lines(),
        "",
        "| what | median, s | largest, s | to stay under, s |",
        "|---|---|---|---|",
        *(
            f"| {cost.what} | {median(cost.seconds):.2f} | {max(cost.seconds):.2f} | {cost.bar} |"
            for cost in costs
        ),
    ]
    return "\n".join(lines) + "\n"
