"""Durations as text: "10 min", "1 h", "250 ms"."""

from __future__ import annotations

import re
from datetime import timedelta

_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "min": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_PATTERN = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([a-z]+?)s?\s*")
JSON_PATTERN = r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*(ms|s|sec|min|h|hour|d|day)s?\s*$"
"""For editors; nearly what ``parse_duration`` takes."""
EXPECTED = 'a duration with its unit, as "30 s", "10 min" or "1 h"'


def parse_duration(text: str) -> timedelta:
    """Read ``"10 min"`` as a timedelta; units are ms, s, min, h and d.

    Raises:
        ValueError: if the text is no number with such a unit.
    """
    match = _PATTERN.fullmatch(text) if text.strip() != "ms" else None
    if text.strip().endswith("ms"):  # the plural s must not be read off "ms"
        match = re.fullmatch(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*(ms)\s*", text)
    if match is None or match[2] not in _SECONDS:
        raise ValueError(f"{text!r} is no duration; expected {EXPECTED}")
    try:
        return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
    except OverflowError:
        raise ValueError(f"{text!r} is too long a duration") from None


def format_duration(duration: timedelta) -> str:
    """The text that ``parse_duration`` reads back, in the largest unit that divides it."""
    seconds = duration.total_seconds()
    for unit in ("d", "h", "min"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f} {unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + " s"
