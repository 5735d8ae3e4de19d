"""The page of what orders of samples cost."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measured import here_and_now
from benchmarks.order import GLOBAL_BATCH, LONGEST_STORED, RANKS, OrderCost

HEAD = f"""\
# The order of samples, from a thousand to 1e12

Written by `python -m benchmarks order`: one rank of {RANKS}, global batch {GLOBAL_BATCH}. The engine
computes a window of the permutation when it is needed; torch's DistributedSampler stores the whole order as a
list on every rank, and is not asked for more than {LONGEST_STORED:,} samples. Memory is what the process has
grown by at its largest, of five epochs.
"""


def order_page(costs: Sequence[OrderCost]) -> str:
    """What orders cost, as Markdown."""
    here = here_and_now()
    lines = [
        HEAD,
        *here.lines(f"torch {here.versions['torch']}"),
        "",
        "| samples | side | start of an epoch, ms | memory, MB | indices/s |",
        "|---|---|---|---|---|",
        *(
            f"| {cost.length:.0e} | {cost.side} | {1e3 * cost.start_seconds:.2f} | {cost.megabytes:.1f} "
            f"| {cost.indices_per_second:,.0f} |"
            for cost in costs
        ),
    ]
    return "\n".join(lines) + "\n"
