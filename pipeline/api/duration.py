"""Durations as text: "10 min", "1 h", "250 ms"."""

from __future__ import annotations

import re
from datetime import timedelta

_MICROSECONDS = {
    "ms": 1_000,
    **dict.fromkeys(("s", "sec", "secs"), 1_000_000),
    **dict.fromkeys(("min", "mins"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
}
_NUMBER = r"[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?"
_PATTERN = re.compile(rf"\s*({_NUMBER})\s*({'|'.join(_MICROSECONDS)})\s*")
JSON_PATTERN = rf"^\s*{_NUMBER}\s*({'|'.join(_MICROSECONDS)})\s*$"
"""For editors; all that ``parse_duration`` takes, and 0 as well."""
EXPECTED = 'a duration with its unit, as "30 s", "10 min" or "1 h"'


def parse_duration(text: str) -> timedelta:
    """Read ``"10 min"`` as a timedelta; units are ms, s, min, h and d.

    Raises:
        ValueError: if the text is no number with such a unit, or no longer than a microsecond.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration; expected {EXPECTED}")
    try:
        duration = timedelta(microseconds=float(match[1]) * _MICROSECONDS[match[2]])
    except OverflowError:
        raise ValueError(f"{text!r} is too long a duration; expected {EXPECTED}") from None
    if not duration:
        raise ValueError(f"{text!r} is no time at all; expected {EXPECTED}")
    return duration


def format_duration(duration: timedelta) -> str:
    """A text that ``parse_duration`` reads back exactly, in the largest unit that divides it."""
    microseconds = duration // timedelta(microseconds=1)
    for unit in ("d", "h", "min"):
        if microseconds and microseconds % _MICROSECONDS[unit] == 0:
            return f"{microseconds // _MICROSECONDS[unit]} {unit}"
    return f"{microseconds / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s"
