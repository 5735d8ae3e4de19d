"""What a table may hold, read off signatures."""

from __future__ import annotations

import enum
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
import torch
from annotated_types import Gt
from pydantic import BaseModel, ConfigDict, SecretStr, field_validator
from torch import Tensor, nn

from pipeline.api.kinds import Kind
from pipeline.api.period import Period
from pipeline.registry.schema import schema_of

if typing.TYPE_CHECKING:
    pass


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Level(enum.Enum):
    LOW = enum.auto()
    HIGH = enum.auto()


def no_nested(kind, type_name, table, folder):
    raise AssertionError("no nested component here")


def check(component: Callable[..., Any], table: Mapping[str, Any], *, folders=None, only=False):
    return schema_of(Kind.DATASET, component).check(table, folders or {}, no_nested, only=only)


def one_argument(annotation: Any) -> Callable[..., Any]:
    def component(x):
        return x

    component.__annotations__ = {"x": annotation}
    return component


FITS = [
    (int, 3, 3),
    (float, 3, 3.0),
    (float, 1e-3, 1e-3),
    (str, "a", "a"),
    (bool, True, True),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[float, float], [1, 2], (1.0, 2.0)),
    (tuple, [1, "a"], (1, "a")),
    (Iterable[int], [1, 2], [1, 2]),
    (Sequence[float], [1, 2], [1.0, 2.0]),
    (set[str], ["a", "a"], {"a"}),
    (frozenset[int], [1], frozenset({1})),
    (list, [1, "a"], [1, "a"]),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (Mapping[str, float], {"a": 1}, {"a": 1.0}),
    (Mode, "slow", Mode.SLOW),
    (Level, "HIGH", Level.HIGH),
    (timedelta, "10 min", timedelta(minutes=10)),
    (Period, "2 epochs", Period(2, "epoch")),
    (date, date(2020, 1, 2), date(2020, 1, 2)),
    (Literal["min", "max"], "max", "max"),
    (Optional[int], 3, 3),  # noqa: UP045
    (Union[float, Tensor], 1, 1.0),  # noqa: UP007
    (float | list[float] | Tensor, [1], [1.0]),
    (str | Callable[[int], int], "relu", "relu"),
    (tuple[float | Tensor, float | Tensor], [0, 1], (0.0, 1.0)),
    (Annotated[float, Gt(0)], 1, 1.0),
    (Any, {"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}),
    ("Fraction", "resolved by nobody", "resolved by nobody"),
    ("NoSuchName", 5, 5),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), FITS, ids=lambda v: str(v)[:40])
def test_what_fits(annotation, value, expected):
    checked = check(one_argument(annotation), {"x": value})
    assert checked.faults == ()
    got = checked.arguments["x"]
    assert got == expected and type(got) is type(expected)
    if isinstance(expected, tuple | list) and expected:
        assert [type(item) for item in got] == [type(item) for item in expected]
    again = check(one_argument(annotation), {"x": checked.plain["x"]})
    assert again.arguments["x"] == expected


REFUSED = [
    (int, True, "integer"),
    (int, 1.0, "integer"),
    (int, "1", "integer"),
    (float, "1e-3", "number"),
    (float, True, "number"),
    (str, 1, "string"),
    (bool, 1, "true or false"),
    (tuple[int, int], [1], "item 1"),
    (tuple[int, int], [1, 2, 3], "at most 2 items"),
    (Mode, "fats", 'one of "fast", "slow"'),
    (Level, True, 'one of "LOW", "HIGH"'),
    (timedelta, "10 parsecs", "duration"),
    (Period, 3, "epochs"),
    (Path, 3, "path"),
    (Annotated[float, Gt(0)], 0, "greater than 0"),
    (float | list[float], "a", "a number or an array"),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_does_not_fit(annotation, value, expected):
    (fault,) = check(one_argument(annotation), {"x": value}).faults
    assert fault.path[0] == "x" and expected in fault.expected
    assert fault.message


def test_faults_lead_to_the_item_and_give_the_nearest_choice():
    (fault,) = check(one_argument(list[dict[str, int]]), {"x": [{"a": 1}, {"a": "b"}]}).faults
    assert fault.path == ("x", 1, "a") and fault.message == 'got "b"'
    (fault,) = check(one_argument(float | list[float]), {"x": [1, "b"]}).faults
    assert fault.path == ("x", 1)
    (fault,) = check(one_argument(Literal["triangular", "exp_range"]), {"x": "triangluar"}).faults
    assert fault.nearest == "triangular"


def mlp(in_features: int, hidden: Sequence[int] = (64, 32), dropout: float = 0, act=None, *, name="a"): ...


def test_all_faults_at_once_with_names():
    faults = {fault.path: fault for fault in check(mlp, {"hiden": [3], "dropout": "a", "other": 1}).faults}
    assert set(faults) == {("hiden",), ("other",), ("in_features",), ("dropout",)}
    assert faults[("hiden",)].nearest == "hidden"
    assert "int" in faults[("in_features",)].expected
    assert "in_features" in faults[("other",)].expected


def test_defaults_are_filled_in_as_if_they_had_been_written():
    checked = check(mlp, {"in_features": 3})
    expected = {"in_features": 3, "hidden": [64, 32], "dropout": 0.0, "name": "a"}
    assert dict(checked.plain) == expected and list(checked.plain) == list(expected)
    assert checked.arguments["act"] is None and type(checked.plain["dropout"]) is float
    assert checked.arguments == check(mlp, checked.plain).arguments


def test_defaults_that_toml_cannot_write_are_the_components_own():
    marker = object()

    def component(a=marker, b: int = None, c: float = math.inf, d: Callable[[], int] = int): ...  # noqa: RUF013

    checked = check(component, {})
    assert dict(checked.arguments) == {"b": None, "c": math.inf}
    assert dict(checked.plain) == {"c": math.inf}
    assert check(component, {"a": 3}).arguments["a"] == 3
    (fault,) = check(component, {"d": "x"}).faults
    assert "a callable" in fault.message


def test_named_as_methods_of_pydantic_models():
    def component(
        copy: int, json: str = "a", model_config: float = 1.0, _private: int = 0, schema: bool = True
    ): ...

    checked = check(component, {"copy": 1, "_private": 2})
    assert checked.faults == ()
    assert dict(checked.arguments) == {
        "copy": 1, "json": "a", "model_config": 1.0, "_private": 2, "schema": True,
    }  # fmt: skip


def test_keyword_arguments_of_any_name():
    def component(a: int, **kwargs: Any): ...

    checked = check(component, {"a": 1, "zebra": [1], "b": "x"})
    assert checked.faults == () and dict(checked.arguments) == {"a": 1, "zebra": [1], "b": "x"}
    assert check(component, {"a": "x", "b": 1}).faults[0].path == ("a",)


def test_paths_are_absolute_by_the_folder_of_their_file(tmp_path):
    def component(file: str | Path, more: list[Path] = [], start: Path = Path("data")): ...  # noqa: B006

    folders = {"file": tmp_path / "one", "more": tmp_path / "two"}
    checked = check(component, {"file": "a.txt", "more": ["b", "/c"]}, folders=folders)
    assert checked.arguments["file"] == tmp_path / "one" / "a.txt"
    assert checked.arguments["more"] == [tmp_path / "two" / "b", Path("/c")]
    assert checked.plain["file"] == str(tmp_path / "one" / "a.txt")
    assert checked.arguments["start"] == Path("data")
    assert checked.paths == {("file",), ("more", 0), ("more", 1), ("start",)}


def test_secrets_are_named_and_shown_nowhere():
    def component(token: SecretStr, key: SecretStr | None = None): ...

    checked = check(component, {"token": "hunter2"})
    assert checked.arguments["token"].get_secret_value() == "hunter2"
    assert checked.secrets == {("token",), ("key",)} and "hunter2" not in str(checked.plain)
    wrong = check(component, {"token": 123456})
    (fault,) = wrong.faults
    assert wrong.secrets == {("token",), ("key",)}
    assert "123456" not in str(fault)


def test_only_the_given_arguments():
    checked = check(mlp, {"dropout": 1}, only=True)
    assert dict(checked.arguments) == {"dropout": 1.0} == dict(checked.plain) and checked.faults == ()


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Callable[[int], int], "a callable"),
        (list[Callable[[int], int]], "a callable"),
        (type[nn.Module], "a class"),
        (Tensor, "Tensor"),
        (torch.optim.Optimizer, "Optimizer"),
        (torch.device | None, "device"),
    ],
    ids=str,
)
def test_components_that_require_what_no_config_holds(annotation, reason):
    schema = schema_of(Kind.DATASET, one_argument(annotation))
    assert schema.refusal and "'x'" in schema.refusal and reason in schema.refusal


class Declared:
    class config_model(BaseModel):
        model_config = ConfigDict(strict=True)
        width: int
        depth: int = 2

        @field_validator("width")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("the width must be even")
            return value

    def __init__(self, **kwargs: int) -> None:
        self.kwargs = kwargs


def test_a_declared_model_validates_instead_of_the_signature():
    checked = check(Declared, {"width": 4})
    assert dict(checked.arguments) == {"width": 4, "depth": 2} == dict(checked.plain)
    (fault,) = check(Declared, {"width": 3}).faults
    assert fault.path == ("width",) and fault.message == "got 3: the width must be even"
    assert check(Declared, {"width": 4, "dept": 3}).faults[0].nearest == "depth"
    assert check(Declared, {}).faults[0].path == ("width",)
    assert dict(check(Declared, {"depth": 3}, only=True).arguments) == {"depth": 3}


def test_inherited_constructors_and_generic_classes():
    class Base:
        def __init__(self, size: int) -> None: ...

    class Child(Base): ...

    class Made:
        def __new__(cls, size: int) -> Made:
            return super().__new__(cls)

    assert check(Child, {"size": "a"}).faults[0].path == ("size",)
    assert check(Made, {"size": "a"}).faults[0].path == ("size",)
