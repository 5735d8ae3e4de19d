"""What plainly fits is told as pydantic tells it; what does not is left to pydantic."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Lt, MinLen, MultipleOf
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, create_model

from pipeline.api.metric_name import MetricName
from pipeline.api.period import Period
from pipeline.config import sections
from pipeline.config.fitting import MisfitError, UnsureError, Unwritable, fit_of, fitted
from pipeline.config.outline import SETTINGS
from pipeline.registry.annotations import Unsettable, settable

KNOWN = [
    bool, int, float, str, Any, Period, timedelta, Path, MetricName,
    int | None, float | str, bool | int, int | float, str | Path, list[float] | Path, float | list[float],
    list[int], Sequence[float], collections.abc.Iterable[str], tuple[int, ...], tuple[float, str],
    dict[str, int], dict[str, Any] | None, list[Literal["a", "b"]] | None,
    Literal["a", 1, True], Annotated[int, Ge(0)], Annotated[float, Ge(0), Lt(1)],
    Annotated[list[Annotated[int, Ge(1)]], MinLen(1)], Annotated[int, Ge(1)] | Literal["auto"],
    tuple[float | None, float],
]  # fmt: skip
SCALARS = [
    True, False, 0, 1, -1, 5, 1 << 62, 0.0, 0.5, 1.0, -2.5, float("inf"), float("nan"), "", "a", "auto",
    "never", "1 epoch", "50 steps", "10 min", "0 s", "x/y.txt", "fp32", "TERM",
]  # fmt: skip
TABLES_AND_ARRAYS = [
    [], [1], [0], [1, 2], [1.5], [0.5, "a"], ["a"], ["a", "c"], [True], [[1]], {}, {"a": 1},
    {"a": "x"}, {"a": [1]},
]  # fmt: skip
VALUES = st.sampled_from([*SCALARS, *TABLES_AND_ARRAYS])


def pydantics(annotation: Any, value: Any) -> Any:
    """What the registry's own reading of an annotation makes of a value."""
    model = create_model(
        "M", __config__={"strict": True}, x=(settable(annotation), Field(None)), __module__=__name__
    )
    return _bare(model.model_validate({"x": value}).x)


def _bare(value: Any) -> Any:
    if type(value).__name__ == "Chosen":
        return value.value
    return type(value)(map(_bare, value)) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("annotation", KNOWN, ids=str)
def test_what_plainly_fits_is_what_pydantic_makes_of_it(annotation):
    for value in (*SCALARS, *TABLES_AND_ARRAYS):
        try:
            found = fitted(annotation, value)
        except MisfitError:
            with pytest.raises(ValidationError):
                pydantics(annotation, value)
        except UnsureError:
            continue
        else:
            expected = pydantics(annotation, value)
            assert (repr(found), type(found)) == (repr(expected), type(expected)), value


@pytest.mark.parametrize("annotation", [Callable[[int], float], Callable[[int], float] | None, type])
def test_what_no_table_can_set(annotation):
    assert fit_of(annotation) is None
    assert isinstance(settable(annotation), Unsettable)


def test_a_type_that_is_never_written_is_left_out_of_a_union():
    assert fit_of(float | Unwritable)(1) == 1.0
    assert fit_of(Unwritable | None) is None


@pytest.mark.parametrize(
    "annotation", [complex, list, set[int], Annotated[int, MultipleOf(2)], dict[int, str]]
)
def test_other_annotations_are_not_known(annotation):
    with pytest.raises(UnsureError):
        fit_of(annotation)


def test_of_several_types_that_fit_pydantic_chooses():
    with pytest.raises(UnsureError):
        fitted(int | float, 1)


@st.composite
def settings_tables(draw) -> tuple[str, dict[str, Any]]:
    section = draw(st.sampled_from(list(SETTINGS)))
    keys = st.sampled_from([*SETTINGS[section].__dataclass_fields__, "nonsense"])
    table = draw(st.dictionaries(keys, VALUES, max_size=3))
    return section, {"global_batch_size": 8, **table} if section == "train" else table


@given(settings_tables())
def test_the_engines_tables_are_told_as_pydantic_tells_them(given_table):
    section, table = given_table
    expected = sections._validated(section, table)
    try:
        found = sections._plainly_checked(section, table)
    except UnsureError:
        return
    assert found == expected
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("section", list(SETTINGS))
def test_an_engines_table_is_told_without_pydantic(section):
    table = {"global_batch_size": 8, "epochs": 2, "log_every": "9 steps"} if section == "train" else {}
    assert sections._plainly_checked(section, table) == sections._validated(section, table)
