"""Which run was started from which, with what changed and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.cli.results import rounded, toml_of
from pipeline.cli.runs_table import BROKEN, LABELS
from pipeline.config.compare import Change, changes

if TYPE_CHECKING:
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
        parent = _parent(node.row)
        above = nodes.get(parent) if parent else None
        if parent is None:
            roots.append(node)
        elif above is None or _is_below(above, node, nodes):
            node.edge = f"from {parent}, which is not shown"
            roots.append(node)
        else:
            node.edge = _edge(above.row, node.row)
            above.children.append(node)
    return roots


def _is_below(node: Node, other: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether ``node`` descends from ``other``, which only a record that was edited can bring about."""
    seen = set()
    while node is not other:
        parent = _parent(node.row)
        if parent is None or parent not in nodes or parent in seen:
            return False
        seen.add(parent)
        node = nodes[parent]
    return True


def edge_and_title(node: Node) -> tuple[str, str]:
    """What a drawing shows of a run: what was changed on the way to it, and the run."""
    row = node.row
    words = [row.folder.name, row.status or BROKEN]
    if row.steps:
        words.append(f"{row.steps} steps")
    if row.summary and row.summary.best_metric:
        words.append(f"{row.summary.best_metric} {rounded(row.summary.best_value)}")
    return node.edge, "  ".join(words)


def _parent(row: RunRow) -> str | None:
    return row.summary.parent_run if row.summary else None


def _edge(parent: RunRow, child: RunRow) -> str:
    checkpoint = child.summary.parent_checkpoint if child.summary else None
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
    before, after = parent.summary, child.summary
    if before is None or after is None or before.best_metric != after.best_metric:
        return ""
    if before.best_value is None or after.best_value is None:
        return ""
    return f"{after.best_metric} {_changed(before.best_value, after.best_value)}"


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
