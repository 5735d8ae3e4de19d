"""Values that hooks of all ranks log: joined with the row that they go into, in its one collective."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import chain

import torch
from torch import Tensor

from pipeline.api.metric import State
from pipeline.engine.group import Group
from pipeline.engine.reduction import reduce_states
from pipeline.engine.run_state import Logged
from pipeline.errors import ComponentError

_FIRST, _LAST, _TABLE = "the names (largest)", "the names (smallest)", "the values"


class Averages:
    """Joins the values over the ranks.

    All ranks must bring equally many bytes, but one may have logged a name that another has not. So
    there is room for some values, and beside them goes a number that stands for the names. If there are
    more values than room, one more collective follows, once; if the names differ, an error.

    Args:
        on_phase: told which hook is at fault.
    """

    def __init__(self, logged: Logged, group: Group, on_phase: Callable[[str], None]) -> None:
        self._logged = logged
        self._group = group
        self._on_phase = on_phase
        self._room = 8

    def states(self) -> dict[str, State]:
        """What goes into the row's collective."""
        number = torch.tensor(_number(sorted(self._logged.averaged)))
        return {
            _FIRST: State(number, "max"),
            _LAST: State(number, "min"),
            _TABLE: State(self._table(), "sum"),
        }

    def take(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """The averages by name, from what has become of ``states``; all ranks call it together.

        Raises:
            ComponentError: if ranks have logged different names; on all of them.
        """
        if sums[_FIRST] != sums[_LAST]:
            self._complain()
        names, table = sorted(self._logged.averaged), sums[_TABLE]
        if len(names) > self._room:
            self._room = len(names)
            (table,) = reduce_states([State(self._table(), "sum")], self._group, [_TABLE])
        averages = {name: float(total / count) for name, (total, count) in zip(names, table, strict=False)}
        return {name: averages[name] for name in self._logged.averaged}  # as they were logged

    def _table(self) -> Tensor:
        """Sums and counts by sorted name, float64 (room, 2); zeros where there is no room for all."""
        table = torch.zeros(self._room, 2, dtype=torch.float64)
        if len(self._logged.averaged) <= self._room:
            for row, (_, (total, count)) in enumerate(sorted(self._logged.averaged.items())):
                table[row, 0] = float(total)
                table[row, 1] = count
        return table

    def _complain(self) -> None:
        by_rank: list[dict[str, str]] = self._group.all_gather_objects(
            {name: self._logged.by.get(name, "a hook") for name in self._logged.averaged}
        )
        every = set(chain.from_iterable(by_rank))
        name = min(name for name in every if not all(name in names for names in by_rank))
        ranks = [rank for rank, names in enumerate(by_rank) if name in names]
        hook = by_rank[ranks[0]][name]
        self._on_phase(hook)
        raise ComponentError(
            f"{hook} has logged {name!r} on rank {', '.join(map(str, ranks))} only, of {len(by_rank)} ranks; "
            'a hook of all ranks logs the same names on all of them, or runs on one (ranks = "main")'
        )


def _number(names: list[str]) -> int:
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
