"""``pipeline runs --tree``: the forest of runs, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.cli.lineage import Node, edge_and_title

if TYPE_CHECKING:
    from rich.tree import Tree


def draw(roots: Sequence[Node]) -> None:
    """Print the forest, one line a run and one an edge, whatever the terminal's width."""
    from rich.console import Console
    from rich.tree import Tree

    console = Console(markup=False, highlight=False, emoji=False, width=100_000)
    for root in roots:
        tree = Tree(_text(root))
        _hang(tree, root)
        console.print(tree)


def _hang(tree: Tree, node: Node) -> None:
    for child in node.children:
        _hang(tree.add(_text(child)), child)


def _text(node: Node) -> str:
    edge, title = edge_and_title(node)
    return f"{title}\n{edge}" if edge else title
