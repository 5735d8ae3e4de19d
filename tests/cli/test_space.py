"""What ``pipeline sweep --optuna`` may choose from."""

from __future__ import annotations

import pytest

from pipeline.cli.grid import Axis
from pipeline.cli.space import Interval, read_space
from pipeline.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("optimizer.lr=log(1e-4,1e-1)", Interval("optimizer.lr", "log", 1e-4, 1e-1)),
        ("a = float( -1 , 2.5 )", Interval("a", "float", -1.0, 2.5)),
        ("seed=int(0, 9)", Interval("seed", "int", 0, 9)),
        ("model.activation=relu,gelu", Axis("model.activation", ("relu", "gelu"))),
        ("model.hidden=[64, 64],[128]", Axis("model.hidden", ("[64, 64]", "[128]"))),
        ("seed=1..3", Axis("seed", ("1", "2", "3"))),
    ],
)
def test_a_space_is_an_interval_or_a_choice(text, expected):
    assert read_space([text]) == [expected]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["lr"], "--search: 'lr': has no key or no '='; expected KEY=V1,V2 or KEY=int(LOW, HIGH)"),
        (["lr=uniform(0, 1)"], "column 4: 'uniform' is none of int, float, log; expected "),
        (["lr=log(0, 1)"], "column 8: the logarithm of 0.0 is not defined; LOW has to be above 0"),
        (["lr=float(1, 0.5)"], "column 13: HIGH is 0.5, which is not above LOW, 1.0"),
        (["seed=int(0, 1.5)"], "column 13: '1.5' is no whole number"),
        (["lr=float(0, many)"], "column 13: 'many' is no finite number"),
        (["lr=float(0, inf)"], "column 13: 'inf' is no finite number"),
        (["lr=float(0)"], "column 10: float takes two numbers, LOW and HIGH"),
        (["lr=float(0, 1, 2)"], "column 10: float takes two numbers, LOW and HIGH"),
        (["lr=float(0, 1"], "column 14: ')' is missing"),
        (["a=1", "a=2"], "--search a: is given twice; expected one --search of a key"),
    ],
)
def test_a_wrong_space_says_what_is_wrong_and_where(texts, message):
    with pytest.raises(ConfigError, match=r"--search") as caught:
        read_space([*texts, "seed=int(9, 0)"])
    assert message in str(caught.value)
    assert "HIGH is 0" in str(caught.value), "all faults at once"
