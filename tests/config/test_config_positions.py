"""Every key of a TOML text has its line and column."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.keys import walk
from pipeline.config.positions import key_places

TEXT = '''\
# a comment
a.b = 1
"q x".'y' = { m = 1, n.o = { z = 2 } }
[t."ü"]
k = [ # inside
  1,
  { x = 2 }]
[[arr.x]]
z = 1
[[arr.x]]
[arr.x.sub]
y = """
multi"""
é = { "ä" = 1 }
'''


@pytest.mark.parametrize(("path", "line", "column"), [
    (("a",), 2, 1),
    (("a", "b"), 2, 3),
    (("q x", "y"), 3, 7),
    (("q x", "y", "m"), 3, 15),
    (("q x", "y", "n", "o", "z"), 3, 30),
    (("t", "ü"), 4, 4),
    (("t", "ü", "k"), 5, 1),
    (("t", "ü", "k", 0), 6, 3),
    (("t", "ü", "k", 1, "x"), 7, 5),
    (("arr", "x"), 8, 7),
    (("arr", "x", 0, "z"), 9, 1),
    (("arr", "x", 1), 10, 7),
    (("arr", "x", 1, "sub"), 11, 8),
    (("arr", "x", 1, "sub", "y"), 12, 1),
])  # fmt: skip
def test_place(path, line, column) -> None:
    text = TEXT.replace('é = { "ä" = 1 }', '"é" = { "ä" = 1 }')
    place = key_places(text.encode(), "f.toml")[path]
    assert (place.file, place.line, place.column) == ("f.toml", line, column)


def test_columns_count_characters() -> None:
    places = key_places('"ää" = { "ü" = { b = 1 } }'.encode(), "f.toml")
    assert places["ää", "ü", "b"].column == 18


keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4)
trees = st.dictionaries(
    keys,
    st.recursive(
        st.integers(0, 9) | st.text(max_size=3) | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(trees)
def test_no_key_is_without_a_place(tree) -> None:
    text = tomli_w.dumps(tree)
    places = key_places(text.encode(), "f.toml")
    assert [path for path, _ in walk(tomllib.loads(text)) if path not in places] == []
