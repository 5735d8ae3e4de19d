"""Annotations in lists and messages are as one would write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ForwardRef, Literal, Optional, Tuple, Union  # noqa: UP035

import pytest
from annotated_types import Ge, Predicate
from pydantic import AfterValidator, BaseModel, Discriminator, Field, Strict, Tag

from pipeline.registry.annotation_text import annotation_text
from tiny_runs import call


class Red(BaseModel):
    kind: Literal["red"]


class Blue(BaseModel):
    kind: Literal["blue"]


Colour = Annotated[Red | Blue, Field(discriminator="kind")]
TEXTS = [
    (Colour, "Red | Blue"),
    (list[Colour] | None, "list[Red | Blue] | None"),
    (Annotated[Annotated[Red, Tag("a")] | Annotated[Blue, Tag("b")], Discriminator(len)], "Red | Blue"),
    (Annotated[int, Field(ge=1, description="how many")], "Annotated[int, Ge(ge=1)]"),
    (dict[str, Annotated[int, Ge(1), "pixels"]], "dict[str, Annotated[int, Ge(ge=1), 'pixels']]"),
    (Annotated[int, AfterValidator(lambda value: value), Strict()], "int"),
    (Annotated[str, Predicate(lambda text: text != "")], "str"),
    (Optional[Path], "Path | None"),  # noqa: UP045
    (Union[Red, "Blue"], "Red | Blue"),
    (ForwardRef("some.module.Red"), "Red"),
    (tuple[int, ...], "tuple[int, ...]"),
    (tuple[()], "tuple[()]"),
    (Tuple[int, ...], "tuple[int, ...]"),  # noqa: UP006 - as torch 2.6 writes it
    (Callable[[Annotated[int, Field(gt=0)]], Any], "Callable[[Annotated[int, Gt(gt=0)]], Any]"),
    (Callable[..., None], "Callable[..., None]"),
    (Literal["a", 1], "Literal['a', 1]"),
    (Literal["v1.x", "don't.do", 'a "b.c" \'d.e'], """Literal['v1.x', "don't.do", 'a "b.c" \\'d.e']"""),
    ('some.Choice["v1.x"] | other.Red', 'Choice["v1.x"] | Red'),
    ("collections.abc.Sequence[some.Red]", "Sequence[Red]"),
    ({}, "{}"),
]


@pytest.mark.parametrize(("annotation", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_text(annotation, text) -> None:
    assert annotation_text(annotation) == text


COLOURED = """
from typing import Annotated, Literal
from pydantic import BaseModel, Field
from torch import nn

class Red(BaseModel):
    kind: Literal["red"]

class Blue(BaseModel):
    kind: Literal["blue"]

class Coloured(nn.Module):
    def __init__(self, colour: Annotated[Red | Blue, Field(discriminator="kind")]): ...
"""


def test_a_discriminated_union_is_readable_in_the_list_and_in_a_fault(install, tmp_path) -> None:
    """REQ-09: a union names its choices, and no object of pydantic's."""
    install("colours", "1.0", "[pipeline.models]\ncoloured = coloured:Coloured\n", {"coloured": COLOURED})
    shown = call("components", "model", "coloured").stdout
    assert "Red | Blue" in shown and "FieldInfo" not in shown
    config = tmp_path / "c.toml"
    config.write_text(
        '[model]\ntype = "coloured"\n[dataset.train]\ntype = "digits"\n[objective]\ntype = "mse"\n'
        '[optimizer]\ntype = "sgd"\n[train]\nepochs = 1\nglobal_batch_size = 1\n'
    )
    missing = call("check", config).stderr
    assert f"{config}:1:2: model.colour: is missing; expected colour = ... (Red | Blue)" in missing
    wrong = call("check", config, "--set", "model.colour={kind='green'}").stderr
    assert wrong.startswith("--set model.colour") and '"red" or "blue"' in wrong and "FieldInfo" not in wrong
