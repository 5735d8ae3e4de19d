"""Where every key of a TOML text stands: tomllib gives the values, tree-sitter the positions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from pipeline.config.keys import KeyPath
from pipeline.config.plan import Place

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


def key_places(text: bytes, file: str) -> dict[KeyPath, Place]:
    """The place of every key and array element of a valid TOML text, the first where a table has several.

    Lines and columns count from 1, columns in characters.
    """
    reading = _Reading(text.split(b"\n"), file)
    for node in parsed(text).named_children:
        match node.type:
            case "table":
                reading.table(node, reading.header(node, is_array=False))
            case "table_array_element":
                reading.table(node, reading.header(node, is_array=True))
            case "pair":
                reading.pair(node, ())
    return reading.places


def parsed(text: bytes) -> Node:
    """The root of a text's syntax tree; it says where a text that is no TOML has errors."""
    return _parser().parse(text).root_node


@cache
def _parser() -> Parser:
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_toml.language()))


@dataclass
class _Reading:
    lines: list[bytes]
    file: str
    places: dict[KeyPath, Place] = field(default_factory=dict)
    lengths: dict[KeyPath, int] = field(default_factory=dict)
    """How many elements each array of tables has so far."""

    def table(self, node: Node, path: KeyPath) -> None:
        for child in node.named_children:
            if child.type == "pair":
                self.pair(child, path)

    def header(self, node: Node, *, is_array: bool) -> KeyPath:
        """The path that ``[a.b]`` or ``[[a.b]]`` opens; a name of an array means its last element."""
        parts = list(_key_parts(node.named_children[0]))
        path: KeyPath = ()
        for number, (name, part) in enumerate(parts):
            path = (*path, name)
            self._note(path, part)
            if is_array and number == len(parts) - 1:
                self.lengths[path] = self.lengths.get(path, 0) + 1
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
                self._note(path, part)
        return path

    def pair(self, node: Node, path: KeyPath) -> None:
        key, *rest = (child for child in node.named_children if child.type != "comment")
        for name, part in _key_parts(key):
            path = (*path, name)
            self._note(path, part)
        for value in rest:
            self._value(value, path)

    def _value(self, node: Node, path: KeyPath) -> None:
        if node.type == "inline_table":
            self.table(node, path)
        elif node.type == "array":
            elements = (child for child in node.named_children if child.type != "comment")
            for number, element in enumerate(elements):
                self._note((*path, number), element)
                self._value(element, (*path, number))

    def _note(self, path: KeyPath, node: Node) -> None:
        row, column = node.start_point
        characters = len(self.lines[row][:column].decode(errors="replace"))
        self.places.setdefault(path, Place(self.file, row + 1, characters + 1))


def _key_parts(node: Node) -> Iterator[tuple[str, Node]]:
    """The names of a key from left to right; the grammar nests ``a.b.c`` to the left."""
    if node.type == "dotted_key":
        for child in node.named_children:
            yield from _key_parts(child)
        return
    text = (node.text or b"").decode(errors="replace")
    yield (text if node.type == "bare_key" else next(iter(tomllib.loads(f"{text} = 0")))), node
