"""A table of who has what, where ranks have not what they must have alike; knows no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

_SHOWN = 20
_WIDEST = 60
_NOTHING = "(none)"

Facts = Mapping[str, str]
"""What a rank has, by name."""


def differing(by_rank: Sequence[Facts]) -> list[str]:
    """The names under which not all ranks have the same, in the order of rank 0's."""
    names = list(dict.fromkeys(name for facts in by_rank for name in facts))
    return [name for name in names if len({facts.get(name) for facts in by_rank}) > 1]


def table(by_rank: Sequence[Facts]) -> str:
    """Who has what where the ranks differ: a line for every name and value; empty where they do not."""
    names = differing(by_rank)
    rows: list[tuple[str, str, str]] = []
    for name in names[:_SHOWN]:
        ranks: dict[str, list[int]] = {}
        for rank, facts in enumerate(by_rank):
            ranks.setdefault(facts.get(name, _NOTHING), []).append(rank)
        for number, (value, having) in enumerate(ranks.items()):
            rows.append(("" if number else name, _short(value), _spans(having)))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    lines = [f"  {name:{widths[0]}}  {value:{widths[1]}}  {ranks}" for name, value, ranks in rows]
    if len(names) > _SHOWN:
        lines.append(f"  and {len(names) - _SHOWN} more")
    return "\n".join(lines)


def _short(value: str) -> str:
    return value if len(value) <= _WIDEST else f"{value[: _WIDEST - 3]}..."


def _spans(ranks: Sequence[int]) -> str:
    """``ranks 0, 2-7`` for 0, 2, 3, 4, 5, 6, 7."""
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(ranks), lambda pair: pair[1] - pair[0])]
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(spans)}"
