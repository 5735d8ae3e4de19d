"""A number that has a bar, measured several times, and the table of such numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One thing that was measured."""

    what: str
    unit: str
    """Empty for a ratio."""
    bar: float | None
    """What it must not pass; None where it is told beside the others."""
    values: tuple[float, ...]
    """Of every round."""


def table(figures: Iterable[Figure]) -> list[str]:
    """As the lines of Markdown."""
    return [
        "| what | rounds | median | least | largest | not above |",
        "|---|---|---|---|---|---|",
        *(_row(figure) for figure in figures),
    ]


def _row(figure: Figure) -> str:
    values = figure.values
    numbers = [f"{of(values):.3f} {figure.unit}".rstrip() for of in (median, min, max)]
    bar = "" if figure.bar is None else f"{figure.bar:g} {figure.unit}".rstrip()
    return f"| {figure.what} | {len(values)} | {' | '.join(numbers)} | {bar} |"
