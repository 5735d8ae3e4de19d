"""An order that remembers which index stood at which position of an epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.api.order import Order


class RecordedOrder:
    """Stands in for an order; whatever else is asked of it, the order itself answers."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._known: dict[int, dict[int, int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._order, name)

    @property
    def samples_per_epoch(self) -> int:
        return self._order.samples_per_epoch

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        indices = self._order.indices(epoch, start, stop)
        self._known.setdefault(epoch, {}).update(zip(range(start, stop), indices.tolist(), strict=False))
        return indices

    def window(self, epoch: int, positions: range) -> list[int]:
        """What stood at these positions when they were last asked for."""
        known = self._known.get(epoch, {})
        return [known[position] for position in positions if position in known]
