"""The pages of results."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.compare import Comparison
from benchmarks.order import GLOBAL_BATCH, LONGEST_STORED, RANKS, OrderCost

HEAD = """\
# Steps per second: the engine and the hand-written loop

Written by `make bench`. Each round runs both sides one after the other, each in fresh processes; the ratio is
the median over the rounds of engine / loop, so 1.00 is the speed of the loop in `benchmarks/loop_side.py`.
Start-up is not on the clock, and a speed is that of the fastest tenth of all windows of 50 steps, which no
other process has disturbed. One thread per rank; several ranks are started by torchrun. The CPU columns are
the processor time of a step on rank 0, all its threads, waiting for other ranks included.
"""


ORDER_HEAD = f"""\
# The order of samples, from a thousand to 1e12

Written by `python -m benchmarks --order`: one rank of {RANKS}, global batch {GLOBAL_BATCH}. The engine
computes a window of the permutation when it is needed; torch's DistributedSampler stores the whole order as a
list on every rank, and is not asked for more than {LONGEST_STORED:,} samples. Memory is what the process has
grown by at its largest, of five epochs.
"""


def page(comparisons: Sequence[Comparison], *, rounds: int, quick: bool) -> str:
    """The results as Markdown."""
    lines = [
        HEAD,
        *_circumstances(),
        f"- rounds: {rounds}{' (quick: a look, not a measurement)' if quick else ''}",
        "",
        "| workload | ranks | loop, steps/s | engine, steps/s | ratio | lowest and highest "
        "| loop, CPU us/step | engine, CPU us/step |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, comparisons),
    ]
    return "\n".join(lines) + "\n"


def order_page(costs: Sequence[OrderCost]) -> str:
    """What orders cost, as Markdown."""
    lines = [
        ORDER_HEAD,
        *_circumstances(),
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


def _circumstances() -> list[str]:
    import torch

    return [
        f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- machine: {_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"torch {torch.__version__}",
    ]


def _row(comparison: Comparison) -> str:
    case, ratios = comparison.case, comparison.ratios
    cells = [
        case.workload.about,
        str(case.world_size),
        f"{median(speed.steps_per_second for speed in comparison.loop):.1f}",
        f"{median(speed.steps_per_second for speed in comparison.engine):.1f}",
        f"{comparison.ratio:.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        f"{median(speed.cpu_microseconds for speed in comparison.loop):.0f}",
        f"{median(speed.cpu_microseconds for speed in comparison.engine):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
