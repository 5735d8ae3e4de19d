"""Durations as text."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.api.duration import JSON_PATTERN, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 min", 600),
        ("10 mins", 600),
        ("1 h", 3600),
        ("2 hours", 7200),
        ("30 s", 30),
        ("30s", 30),
        ("1.5 s", 1.5),
        ("1_000 s", 1000),
        ("250 ms", 0.25),
        ("1 d", 86400),
        ("3 days", 259200),
        ("0.001 ms", 1e-6),
    ],
)
def test_what_is_read(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "10", "ms", "s", "-1 s", "ten min", "1 y", "1 min 30 s", "1,5 s", ".", "1_ s", "5 mss"]
)
def test_what_is_refused(text):
    with pytest.raises(ValueError, match=r"is no duration; expected a duration with its unit"):
        parse_duration(text)


def test_an_endless_duration_is_refused():
    with pytest.raises(ValueError, match="too long"):
        parse_duration("9999999999999 d")


@pytest.mark.parametrize("text", ["0 s", "0.0001 ms"])
def test_no_time_at_all_is_no_duration(text):
    with pytest.raises(ValueError, match="is no time at all; expected"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["10 min", "2 hours", "1_0 s", "250 ms", "5 mss", "1_ s", "10", "-1 s", "3 dayss"]
)
def test_editors_and_the_config_take_the_same(text):
    try:
        parse_duration(text)
    except ValueError:
        assert not re.match(JSON_PATTERN, text)
    else:
        assert re.match(JSON_PATTERN, text)


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=365)))
def test_the_text_of_a_duration_reads_back(duration):
    assert parse_duration(format_duration(duration)) == duration


def test_the_largest_unit_that_divides_it():
    texts = [
        format_duration(timedelta(seconds=seconds)) for seconds in (86400, 7200, 600, 90, 0, 0.25, 1e7 + 1)
    ]
    assert texts == ["1 d", "2 h", "10 min", "90 s", "0 s", "0.25 s", "10000001 s"]
