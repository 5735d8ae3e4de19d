"""The learning curves of several runs over one axis of steps, reduced to what a screen can show."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BUCKETS = 600
"""Parts of the axis; each holds two points of a run."""

_COUNTERS = frozenset({"step", "epoch", "time"})


@dataclass(frozen=True)
class Curve:
    """One metric of all runs."""

    steps: list[int]
    values: list[list[float | None]]
    """By run, then by step; None: not measured there, or not finite."""


def curves_of(logs: Sequence[Iterable[Mapping[str, Any]]]) -> dict[str, Curve]:
    """Every metric's curve from the rows of each run's metrics.jsonl.

    With more steps than a screen has points, each part of the axis keeps a run's smallest and largest
    value in it, in the order in which they came: no peak is lost.
    """
    points: dict[str, list[dict[int, float]]] = {}
    for number, rows in enumerate(logs):
        for row in rows:
            for name, value in row.items():
                if name not in _COUNTERS and isinstance(value, int | float) and _is_finite(value):
                    points.setdefault(name, [{} for _ in logs])[number][row["step"]] = value
    return {name: _curve(by_run) for name, by_run in points.items()}


def _is_finite(value: float) -> bool:
    """Also of whole numbers too large for a float, which JSON may hold."""
    return abs(value) <= sys.float_info.max


def _curve(by_run: list[dict[int, float]]) -> Curve:
    steps = sorted(set().union(*by_run))
    if len(steps) <= 2 * BUCKETS:
        return Curve(steps, [[_short(run.get(step)) for step in steps] for run in by_run])
    width = (steps[-1] + 1 - steps[0]) / BUCKETS
    starts = [steps[0] + width * bucket for bucket in range(BUCKETS)]
    return Curve(
        [round(start + part * width / 2) for start in starts for part in (0, 1)],
        [_reduced(run, steps[0], width) for run in by_run],
    )


def _reduced(run: Mapping[int, float], first: int, width: float) -> list[float | None]:
    """Two values a bucket: its extremes, in their order."""
    lows: list[tuple[int, float] | None] = [None] * BUCKETS
    highs: list[tuple[int, float] | None] = [None] * BUCKETS
    for step, value in run.items():
        bucket = min(BUCKETS - 1, int((step - first) / width))
        low, high = lows[bucket], highs[bucket]
        if low is None or value < low[1]:
            lows[bucket] = (step, value)
        if high is None or value > high[1]:
            highs[bucket] = (step, value)
    values: list[float | None] = []
    for low, high in zip(lows, highs, strict=True):
        pair = sorted(point for point in (low, high) if point is not None)
        values += [_short(value) for _, value in pair] if pair else [None, None]
    return values


def _short(value: float | None) -> float | None:
    """To 6 digits, which halves the page."""
    return None if value is None else float(f"{value:.6g}")
