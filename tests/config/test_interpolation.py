"""Interpolation is OmegaConf's, in linear time and within limits."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from pipeline.config import expression
from pipeline.config.expression import escape, evaluate, parse_text
from pipeline.config.interpolation import interpolate


def resolve(tree: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    problems: list[tuple[Any, ...]] = []
    result = interpolate(tree, lambda *problem: problems.append(problem))
    return result.tree, problems


SAME_AS_OMEGACONF = {
    "whole value keeps its type": {"a": "${b}", "b": [1, {"c": 2.5}]},
    "inside text": {"a": "x${b}y${c}", "b": True, "c": 3},
    "relative": {"t": {"a": "${.b}", "b": 1, "u": {"c": "${..b}", "d": "${.c}"}}},
    "nested": {"which": "b", "b": {"c": 7}, "a": "${${which}.c}", "x": "${b[${k}]}", "k": "c"},
    "array elements": {"l": [1, "${l.0}", "${l[1]}"]},
    "through a table": {"a": {"x": "${b}"}, "b": "v", "c": "${a}"},
    "through an interpolated table": {"a": {"x": 1}, "b": "${a}", "c": "${b.x}"},
    "escapes": {"a": r"\${b}", "c": r"\\${b}", "d": r"x\y ${b} \\", "b": "v"},
    "environment": {"a": "${oc.env:TEST_SET}", "b": "${oc.env:TEST_UNSET,5}", "c": "p/${oc.env:TEST_SET}"},
    "decode": {"a": "${oc.decode:'[1, 2, {a: x}]'}", "b": "${oc.decode:${oc.env:TEST_UNSET,'3'}}"},
    "select": {"a": "${oc.select:b.c,4}", "d": "${oc.select:e}", "e": 3},
    "create": {"a": "${oc.create:[1, 2]}"},
    "dictionary": {"a": "${oc.dict.keys:b}", "c": "${oc.dict.values:b}", "b": {"x": 1, "y": 2}},
    "nothing to do": {"a": "???", "b": "$x {y}"},
}


@pytest.mark.parametrize("tree", SAME_AS_OMEGACONF.values(), ids=SAME_AS_OMEGACONF)
def test_same_as_omegaconf(tree, monkeypatch) -> None:
    monkeypatch.setenv("TEST_SET", "value")
    expected = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    assert resolve(tree) == (expected, [])


@given(st.lists(st.sampled_from([
    "${a}", "${.b}", "${t.c}", "${..t.c}", "${_x9}", "x", " ", "}", "{", "é", "'", '"', ":", "\\", "$",
    "${ a }", "${9}", "${t.0}", "${null}", "${a-b}", "${t..c}", "${a.}",
])))  # fmt: skip
def test_plain_references_mean_what_omegaconf_says(pieces) -> None:
    """They are read without its parser."""
    text = "".join(pieces)
    tree = {"k": text, "a": 1.5, "b": [True, "y"], "_x9": {"z": 1}, "t": {"c": "v"}, "null": 3, "a-b": 4}
    with patch.object(expression, "_plain_text", lambda text: None):
        expected = resolve(tree)
    found = resolve(tree)
    assert found == expected
    assert repr(found) == repr(expected)


def test_plain_references_do_without_omegaconf() -> None:
    with patch.object(expression, "_parse", side_effect=AssertionError):
        assert resolve({"a": "x${b}y${t.c} ${..b}", "b": 1, "t": {"c": "${.d}", "d": 2}})[0]["t"]["c"] == 2
        assert resolve({"a": "x${b}y${t.c}", "b": 1, "t": {"c": True}})[0]["a"] == "x1yTrue"


def test_doubling_is_linear_and_limited() -> None:
    doubled = {f"k{i}": f"${{k{i + 1}}}" * 2 for i in range(16)} | {"k16": "x"}
    assert resolve(doubled)[0]["k0"] == "x" * (1 << 16)
    doubled = {f"k{i}": f"${{k{i + 1}}}" * 2 for i in range(60)} | {"k60": "x"}
    tree, problems = resolve(doubled)
    assert [problem[:2] for problem in problems] == [(("k43",), "the text grows past 64 KiB")]
    assert "k0" not in tree, "what depends on it is left out without a problem of its own"


def test_doubled_arrays_are_limited() -> None:
    doubled = {f"k{i}": [f"${{k{i + 1}}}"] * 2 for i in range(18)} | {"k18": "x"}
    assert {problem[1] for problem in resolve(doubled)[1]} == {"the text grows past 64 KiB"}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_chain_of_64_is_fine_and_65_is_not(reverse) -> None:
    def chain(length: int) -> dict[str, Any]:
        links = [(f"k{i}", f"${{k{i + 1}}}") for i in range(length)]
        return dict([*(reversed(links) if reverse else links), (f"k{length}", "end")])

    assert resolve(chain(64))[0]["k0"] == "end"
    _, problems = resolve(chain(65))
    assert [problem[:2] for problem in problems] == [(("k0",), "the chain of references has 65 links")]


def test_deep_nesting_and_long_text_are_problems() -> None:
    deep = "${" * 40 + "a" + "}" * 40
    assert resolve({"a": "a", "x": deep})[1][0][1] == "interpolations are nested deeper than 32 levels"
    assert resolve({"a": "a", "x": "${a}" + " " * (1 << 16)})[1][0][2] == "at most 65536"


@pytest.mark.parametrize("text", [
    "${", "${}", "${a", "${a}}${", "${.}", "${..}", "${....a}", "${a.b.c}", "${l.9}", "${l[x]}", "${:}",
    "${oc.env}",
    "${oc.env:}", "${oc.env:a,b,c}", "${oc.env:[1]}", "${oc.decode:[1]}",
    "${oc.decode:'}'}", "${oc.dict.keys:a}",
    "${${l}}", "${oc.select:}", "${x:1}", "${oc.decode:'99999999999999999999'}", "${${${}}}", "${x}",
    "${l.${l.0}}",
])  # fmt: skip
def test_faulty_text_is_a_problem(text) -> None:
    tree, problems = resolve({"x": text, "a": 1, "l": [5]})
    assert [problem[0] for problem in problems] == [("x",)]
    assert tree == {"a": 1, "l": [5]}


def test_null_is_not_set() -> None:
    tree, problems = resolve({"a": "${oc.decode:null}", "l": [1, "${oc.decode:null}"]})
    assert tree == {"l": [1]}
    assert problems == [(("l", 1), "null cannot stand in an array", "", "")]


def test_what_comes_from_the_environment_is_known(monkeypatch) -> None:
    monkeypatch.setenv("TEST_SET", "value")
    tree = {
        "a": "${oc.env:TEST_SET}",
        "b": "${a}",
        "c": "x${b}",
        "d": "${e}",
        "e": "plain",
        "t": "${u}",
        "u": ["${a}"],
    }
    found = interpolate(tree, lambda *problem: pytest.fail(str(problem)))
    assert set(found.environment) == {("a",), ("b",), ("c",), ("t",), ("u", 0)}
    assert found.whole == {("a",), ("b",), ("u", 0)}
    assert found.environment["c",] == "x${b}"


@given(st.text(st.sampled_from("\\${}ax:.")))
def test_escaped_text_is_read_back(text) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("an escaped text has no interpolation")

    written = escape(text)
    assert (evaluate(parse_text(written), fail, fail) if "${" in written else written) == text
