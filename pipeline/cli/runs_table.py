"""The table of runs: what they have in common is left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pipeline.cli.results import duration_of, rounded

if TYPE_CHECKING:
    from pipeline.runs.listing import RunRow
    from pipeline.runs.summary import Summary

BROKEN = "broken"
"""Stands for the status of a run whose record cannot be read."""

LABELS = ("name", "components")
"""Config keys that make no difference to a run."""


def runs_table(rows: Sequence[RunRow], *, for_people: bool) -> tuple[list[str], list[list[Any]]]:
    """Headers and lines; the column of problems is there where one is broken."""
    from pipeline.runs.listing import varying_keys

    keys = [key for key in varying_keys(rows) if key not in LABELS]
    measured = [row.metrics for row in rows]
    metrics = list(dict.fromkeys(chain.from_iterable(measured)))
    problem = ["problem"] if any(row.problem for row in rows) else []
    duration = "duration" if for_people else "seconds"
    headers = ["run", "status", "steps", duration, *keys, *metrics, "best", *problem]
    shown = rounded if for_people else _as_it_is
    columns = [  # with thousands of rows a list for each column takes half the time of one for each row
        [row.folder.name for row in rows],
        [row.status or BROKEN for row in rows],
        [row.steps for row in rows],
        [duration_of(row.seconds) if for_people else row.seconds for row in rows],
        *([row.own.get(key, row.shape.get(key)) for row in rows] for key in keys),
        *([shown(one.get(name)) for one in measured] for name in metrics),
        [_best(row.summary, for_people=for_people) for row in rows],
        *([[row.problem for row in rows]] if problem else []),
    ]
    return headers, list(map(list, zip(*columns, strict=True)))


def _best(run: Summary | None, *, for_people: bool) -> Any:
    if run is None or run.best_value is None or not for_people:
        return run.best_value if run else None
    return f"{run.best_metric} {rounded(run.best_value)} at {run.best_step}"


def _as_it_is(value: Any) -> Any:
    return value
