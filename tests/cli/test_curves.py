"""Curves for the report: what is reduced keeps its extremes."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli.curves import BUCKETS, curves_of


def rows(values, name="train/loss"):
    return [{"step": step, "epoch": 0, name: value, "time": 1.0} for step, value in values.items()]


def test_short_logs_are_kept_point_by_point():
    curves = curves_of([rows({1: 0.5, 3: 0.25}), rows({2: 1.0, 3: 2.0}), []])
    assert curves["train/loss"].steps == [1, 2, 3]
    assert curves["train/loss"].values == [[0.5, None, 0.25], [None, 1.0, 2.0], [None, None, None]]
    assert set(curves) == {"train/loss"}, "step, epoch and time are no curves"


def test_what_is_not_finite_is_a_gap():
    curve = curves_of([rows({1: math.nan, 2: math.inf, 3: 1.0, 4: 10**400})])["train/loss"]
    assert (curve.steps, curve.values) == ([3], [[1.0]])


@given(
    st.integers(2 * BUCKETS + 1, 6 * BUCKETS),
    st.integers(0, 10**6),
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1e6, 1e6)), max_size=5),
)
def test_long_logs_keep_every_peak_in_place(length, first, peaks):
    values = {first + step: math.sin(step / 50) for step in range(length)}
    for where, height in peaks:
        values[first + min(length - 1, int(where * length))] = height
    curve = curves_of([rows(values)])["train/loss"]
    (kept,) = curve.values
    assert len(curve.steps) == len(kept) == 2 * BUCKETS
    assert curve.steps == sorted(curve.steps)
    present = [(step, value) for step, value in zip(curve.steps, kept, strict=True) if value is not None]
    highest, lowest = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    width = length / BUCKETS
    for step in (highest, lowest):
        near = [value for at, value in present if abs(at - step) <= width + 1]
        assert any(math.isclose(value, values[step], rel_tol=1e-5, abs_tol=1e-9) for value in near)
