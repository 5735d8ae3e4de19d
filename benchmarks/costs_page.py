"""The page of what the parts of the engine cost beside the step."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figure import Figure, table
from benchmarks.measured import here_and_now

HEAD = """\
# Beside the step: reading, evaluating, rows of metrics, hooks, epochs

Written by `python -m benchmarks costs`, one rank and one thread. A ratio is the engine's time over that of
the loop beside it, in turns in one process; in a round the least of each counts. Both evaluations compute the
same loss, which is compared. Batches are the workload's, 64 rows; the bare loop takes views of the rows.
The steps with rows of metrics and those without are of the same run: at each place between two rows the
median of the steps there counts. The logged speed is that of the hook `throughput`; another reads a clock,
and of a round the time between two rows counts where they are most apart.
"""


def costs_page(figures: Sequence[Figure]) -> str:
    """What the parts cost, as Markdown."""
    here = here_and_now()
    return "\n".join([HEAD, *here.lines(f"torch {here.versions['torch']}"), "", *table(figures)]) + "\n"
