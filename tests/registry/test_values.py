"""Values within values: records, models, sets and components, and what is said of each place in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, SecretStr

from pipeline import MetricName
from pipeline.api.kinds import Kind
from pipeline.config.plan import CheckedTable
from pipeline.registry.schema import schema_of


@dataclass
class Crop:
    size: int
    where: Literal["centre", "random"] = "centre"
    mask: Path | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("the size must be positive")


class Login(BaseModel):
    user: str
    token: SecretStr
    zone: Literal["eu", "us"] = "eu"


class Pair(NamedTuple):
    first: int
    second: int


def check(component: Any, table: dict[str, Any], **keywords: Any) -> CheckedTable:
    def nested(*_: Any) -> CheckedTable:
        raise AssertionError("no nested component here")

    return schema_of(Kind.HOOK, component).check(table, keywords.get("folders", {}), nested, only=False)


def test_a_dataclass_is_a_table_whose_paths_belong_to_its_file(tmp_path):
    def hook(crops: list[Crop]): ...

    table = {"crops": [{"size": 2}, {"size": 3, "where": "random", "mask": "m.png"}]}
    checked = check(hook, table, folders={"crops": tmp_path})
    assert checked.arguments["crops"] == [Crop(2), Crop(3, "random", tmp_path / "m.png")]
    assert checked.plain["crops"][1] == {"size": 3, "where": "random", "mask": str(tmp_path / "m.png")}
    assert checked.paths == {("crops", 1, "mask")} and ("crops", 1, "where") in checked.choices


def test_faults_in_a_dataclass_have_their_own_keys():
    def hook(crop: Crop): ...

    (fault,) = check(hook, {"crop": {"size": 2, "wher": "random"}}).faults
    assert fault.path == ("crop", "wher") and fault.nearest == "where"
    (fault,) = check(hook, {"crop": {"size": "2"}}).faults
    assert fault.path == ("crop", "size") and "an integer" in fault.expected
    (fault,) = check(hook, {"crop": {"size": 0}}).faults
    assert fault.path == ("crop",) and "the size must be positive" in fault.message


def test_a_secret_inside_a_model_is_named_by_its_own_key():
    def hook(login: Login): ...

    checked = check(hook, {"login": {"user": "me", "token": "hunter2"}})
    assert checked.secrets == {("login", "token")} and ("login", "zone") in checked.choices
    assert "hunter2" not in str(checked.plain)
    (fault,) = check(hook, {"login": {"user": "me", "token": 77777}}).faults
    assert "77777" not in str(fault)
    (fault,) = check(hook, {"login": {"user": "me", "tokn": "hunter2", "token": "x"}}).faults
    assert fault.path == ("login", "tokn") and fault.nearest == "token"


class Left(BaseModel):
    way: Literal["left"]


class Right(BaseModel):
    way: Literal["right"]
    by: int = 1


def test_a_model_that_is_told_by_a_key_has_its_choices_named():
    def hook(turn: Annotated[Left | Right, Field(discriminator="way")]): ...

    (fault,) = check(hook, {"turn": {"way": "straight"}}).faults
    assert fault.path == ("turn",) and fault.expected.startswith('"left" or "right"')
    (fault,) = check(hook, {"turn": {"way": "right", "by": "x"}}).faults
    assert fault.path == ("turn", "by")


def test_sets_are_written_in_one_order_and_named_tuples_are_made():
    def hook(names: set[Literal["b", "a"]], pair: Pair = Pair(1, 2)): ...  # noqa: B008

    checked = check(hook, {"names": ["b", "a"], "pair": [3, 4]})
    assert checked.arguments == {"names": {"a", "b"}, "pair": Pair(3, 4)}
    assert checked.plain == {"names": ["a", "b"], "pair": [3, 4]}


def test_arguments_that_name_a_metric_are_told_in_a_list_too():
    def hook(monitor: MetricName | None = None, others: list[MetricName] = [], plain: str = ""): ...  # noqa: B006

    assert check(hook, {}).measured == {("monitor",), ("others",)}


def test_an_argument_with_the_name_of_an_engines_key_keeps_its_default():
    def hook(ranks: int = 3, every: int = 1): ...

    checked = check(hook, {})
    assert checked.shadowed == {"ranks"} and dict(checked.arguments) == {"every": 1}


def test_choices_keep_their_order_whoever_listed_them_first():
    def one(mode: Literal["x", "y"] = "x"): ...

    def other(mode: Literal["y", "x"] = "y"): ...

    expected = [check(hook, {"mode": "z"}).faults[0].expected for hook in (one, other)]
    assert [text.partition(" (")[0] for text in expected] == ['"x" or "y"', '"y" or "x"']
