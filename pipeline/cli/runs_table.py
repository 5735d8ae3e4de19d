"""The table of runs: what they have in common is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.cli.results import duration_of, rounded

if TYPE_CHECKING:
    from pipeline.runs.listing import RunRow

BROKEN = "broken"
"""Stands for the status of a run whose record cannot be read."""

LABELS = ("name", "components")
"""Config keys that make no difference to a run."""


def runs_table(rows: Sequence[RunRow], *, for_people: bool) -> tuple[list[str], list[list[Any]]]:
    """Headers and lines; the column of problems is there where one is broken."""
    from pipeline.runs.listing import varying_keys

    keys = [key for key in varying_keys(rows) if key not in LABELS]
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    problem = ["problem"] if any(row.problem for row in rows) else []
    duration = "duration" if for_people else "seconds"
    headers = ["run", "status", "steps", duration, *keys, *metrics, "best", *problem]
    shown = rounded if for_people else _as_it_is
    lines = []
    for row in rows:
        run, measured = row.summary, row.metrics
        best: Any = run.best_value if run else None
        if run and best is not None and for_people:
            best = f"{run.best_metric} {rounded(best)} at {run.best_step}"
        lines.append(
            [
                row.folder.name,
                row.status or BROKEN,
                row.steps,
                duration_of(row.seconds) if for_people else row.seconds,
                *(row.config.get(key) for key in keys),
                *(shown(measured.get(name)) for name in metrics),
                best,
                *([row.problem] if problem else []),
            ]
        )
    return headers, lines


def _as_it_is(value: Any) -> Any:
    return value
