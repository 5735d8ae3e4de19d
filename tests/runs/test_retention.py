from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runs.retention import Mode, Retention, Score, Scored, best_of, better, surplus


def scored(*values: float | None, mode: Mode = "max") -> list[Scored]:
    """Checkpoints of steps 1, 2, ... with these values; None: not evaluated."""
    return [
        Scored(f"s{step}", step, None if value is None else Score("acc", value, mode))
        for step, value in enumerate(values, start=1)
    ]


@pytest.mark.parametrize(
    ("new", "old", "mode", "expected"),
    [
        (0.5, None, "max", True),
        (0.6, 0.5, "max", True),
        (0.5, 0.5, "max", False),
        (0.4, 0.5, "max", False),
        (0.4, 0.5, "min", True),
        (0.5, 0.5, "min", False),
        (math.nan, None, "max", False),
        (math.nan, 0.5, "min", False),
        (0.1, math.nan, "max", True),
        (-math.inf, 0.1, "min", True),
        (0.0, -0.0, "max", False),
    ],
)
def test_better(new: float, old: float | None, mode: Mode, expected: bool) -> None:
    assert better(new, old, mode) is expected


def test_nan_does_not_stand_in_the_way_of_the_best() -> None:
    """MET-06: values 0.5, nan, 0.4, 0.3 to be minimised."""
    best = best_of(scored(0.5, math.nan, 0.4, 0.3, math.nan, mode="min"))
    assert best is not None and best.step == 4
    assert best_of(scored(math.nan, None)) is None


@given(
    st.lists(st.none() | st.sampled_from([0.0, 1.0, 2.0, math.nan, math.inf])),
    st.sampled_from(["min", "max"]),
)
def test_the_best_is_the_one_that_better_would_have_left_standing(
    values: list[float | None], mode: Mode
) -> None:
    standing: float | None = None
    step = None
    for one, value in enumerate(values, start=1):
        if value is not None and better(value, standing, mode):
            standing, step = value, one
    best = best_of(scored(*values, mode=mode)[::-1])
    assert (best and best.step) == step


def test_the_newest_and_the_best_are_kept() -> None:
    assert surplus(scored(0.9, 0.5, 0.9, 0.1, 0.2), Retention(keep_last=2, keep_best=1)) == ["s2", "s3"]
    assert surplus(scored(0.9, 0.5, 0.9, 0.1, 0.2), Retention(keep_last=1, keep_best=2)) == ["s2", "s4"]
    assert surplus(scored(0.9, None, 0.1), Retention(keep_last=0, keep_best=0)) == ["s2"]
    assert surplus(scored(0.9, None, 0.1), Retention(keep_last=None)) == []
    assert surplus([], Retention()) == []


def test_values_of_another_metric_do_not_compare() -> None:
    old = Scored("s1", 1, Score("loss", 5.0, "min"))
    new = Scored("s2", 2, Score("acc", 0.5, "max"))
    unscored = Scored("s3", 3)
    assert best_of([old, new, unscored]) == new
    assert surplus([old, new, unscored], Retention(keep_last=1)) == ["s1"]
