"""Periods: what is read, and when it is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pipeline.api.period import Period


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 epoch", Period(1, "epoch")),
        ("2 epochs", Period(2, "epoch")),
        ("1_000 steps", Period(1000, "step")),
        (" 50step ", Period(50, "step")),
        ("never", Period(0, "step")),
    ],
)
def test_what_is_read(text, expected):
    assert Period.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "1", "epoch", "0 steps", "-1 steps", "1.5 epochs", "2 minutes", "1 epoch 2"]
)
def test_what_is_refused(text):
    with pytest.raises(ValueError, match='no period; expected "N epochs", "N steps" or "never"'):
        Period.parse(text)


@given(
    st.builds(Period, st.integers(1, 10**9), st.sampled_from(["epoch", "step"])) | st.just(Period(0, "step"))
)
def test_the_text_of_a_period_reads_back(period):
    assert Period.parse(str(period)) == period


def due(period: str, steps: int, steps_per_epoch: int) -> list[int]:
    """The steps after which a period is due."""
    return [
        step
        for step in range(1, steps + 1)
        if Period.parse(period).due(
            step=step, epochs_done=step // steps_per_epoch, at_epoch_end=step % steps_per_epoch == 0
        )
    ]


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("never", []),
        ("1 step", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("4 steps", [4, 8]),
        ("1 epoch", [3, 6, 9]),
        ("2 epochs", [6]),
        ("100 epochs", []),
    ],
)
def test_when_it_is_due(period, expected):
    assert due(period, steps=9, steps_per_epoch=3) == expected


def test_pydantic_reads_text_and_periods_alone():
    adapter = TypeAdapter(Period)
    assert adapter.validate_python("3 steps") == adapter.validate_python(Period(3, "step"))
    for value in (3, "3", None, True):
        with pytest.raises(ValidationError, match="no period"):
            adapter.validate_python(value)
    assert adapter.dump_python(Period(2, "epoch"), mode="json") == "2 epochs"
