"""``pipeline runs --tree``: which run was started from which, with what changed and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.cli.results import rounded, toml_of
from pipeline.cli.runs_table import BROKEN, LABELS
from pipeline.config.compare import Change, changes

if TYPE_CHECKING:
    from rich.tree import Tree

    from pipeline.runs.listing import RunRow


@dataclass
class Node:
    """A run and those that were started from it."""

    row: RunRow
    edge: str = ""
    """What was changed on the way from its parent, and what that did."""
    children: list[Node] = field(default_factory=list)


def forest(rows: Sequence[RunRow]) -> list[Node]:
    """The runs without a parent among ``rows``, the others below theirs, in the order of ``rows``."""
    nodes = {row.folder.name: Node(row) for row in rows}
    roots = []
    for node in nodes.values():
        parent = node.row.record.parent if node.row.record else None
        above = nodes.get(parent.run) if parent else None
        if parent is None:
            roots.append(node)
        elif above is None or _is_below(above, node, nodes):
            node.edge = f"from {parent.run}, which is not shown"
            roots.append(node)
        else:
            node.edge = _edge(above.row, node.row, parent.checkpoint)
            above.children.append(node)
    return roots


def draw(roots: Sequence[Node]) -> None:
    """Print the forest, one line a run and one an edge, whatever the terminal's width."""
    from rich.console import Console
    from rich.tree import Tree

    console = Console(markup=False, highlight=False, emoji=False, width=100_000)
    for root in roots:
        tree = Tree(_text(root))
        _hang(tree, root)
        console.print(tree)


def _is_below(node: Node, other: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether ``node`` descends from ``other``, which only a record that was edited can bring about."""
    seen = set()
    while node is not other:
        parent = node.row.record.parent if node.row.record else None
        if parent is None or parent.run not in nodes or parent.run in seen:
            return False
        seen.add(parent.run)
        node = nodes[parent.run]
    return True


def _hang(tree: Tree, node: Node) -> None:
    for child in node.children:
        _hang(tree.add(_text(child)), child)


def _text(node: Node) -> str:
    row = node.row
    words = [row.folder.name, row.status or BROKEN]
    if row.steps:
        words.append(f"{row.steps} steps")
    best = row.record.best if row.record else None
    if best is not None:
        words.append(f"{best.metric} {rounded(best.value)}")
    line = "  ".join(words)
    return f"{line}\n{node.edge}" if node.edge else line


def _edge(parent: RunRow, child: RunRow, checkpoint: str | None) -> str:
    before, after = _nested(parent.config), _nested(child.config)
    found = [one for one in _by_section(before, after) if one.key not in LABELS]
    told = [*([f"weights of {checkpoint}"] if checkpoint else []), *map(_told, found)]
    effect = _effect(parent, child)
    return "; ".join(told or ["nothing changed"]) + (f"  =>  {effect}" if effect else "")


def _by_section(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The changes; a section that only one side has is one."""
    found: dict[str, Change] = {}
    for one in changes(before, after):
        section = one.key.partition(".")[0]
        if section in before and section in after:
            found[one.key] = one
        else:
            found[section] = Change(section, before.get(section), after.get(section))
    return list(found.values())


def _told(change: Change) -> str:
    if change.before is None:
        return f"+ {change.key} = {toml_of(change.after)}"
    if change.after is None:
        return f"- {change.key}"
    return f"{change.key} {toml_of(change.before)} -> {toml_of(change.after)}"


def _effect(parent: RunRow, child: RunRow) -> str:
    """What became of the metric that both monitor."""
    records = parent.record, child.record
    bests = [record.best if record else None for record in records]
    if bests[0] and bests[1] and bests[0].metric == bests[1].metric:
        return f"{bests[1].metric} {_changed(bests[0].value, bests[1].value)}"
    return ""


def _changed(before: float, after: float) -> str:
    percent = f" ({100 * (after - before) / abs(before):+.3g} %)" if before and after != before else ""
    return f"{rounded(before)} -> {rounded(after)}{percent}"


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as tables again; no key has a dot of its own."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *above, last = key.split(".")
        table = tree
        for name in above:
            table = table.setdefault(name, {})
        table[last] = value
    return tree
