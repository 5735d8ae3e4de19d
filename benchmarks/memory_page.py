"""The page of what the engine holds in memory."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figure import Figure, table
from benchmarks.measured import here_and_now
from benchmarks.memory import Course

HEAD = """\
# Memory

Written by `python -m benchmarks memory`: resident memory of rank 0 with one thread, as Linux tells it.
A side's peak is taken above the level of a process that has imported the same modules and nothing else.
"""
LONG = """\
Over a long run; *growth* is from the second reading to the last.
"""


def memory_page(figures: Sequence[Figure], courses: Sequence[Course]) -> str:
    """What is held, as Markdown."""
    here = here_and_now()
    return "\n".join(
        [
            HEAD,
            *here.lines(f"torch {here.versions['torch']}"),
            "",
            *table(figures),
            "",
            LONG,
            "| run | MB, after so many | growth, MB |",
            "|---|---|---|",
            *(f"| {one.what} | {_readings(one)} | {one.growth:.1f} |" for one in courses),
            "",
        ]
    )


def _readings(course: Course) -> str:
    return ", ".join(f"{of:.1f} ({count:,} {course.unit})" for count, of in course.readings)
