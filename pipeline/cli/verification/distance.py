"""How far tensors by name are from one another, as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor


def between(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> tuple[float, str]:
    """The norm of the difference relative to the norm of all, and the name with the largest part of it.

    Infinite where the names differ, or one is not finite where the other is.
    """
    if one.keys() != two.keys():
        return math.inf, next(iter(one.keys() ^ two.keys()))
    parts = {name: float((value - two[name]).norm()) for name, value in one.items()}
    if any(map(math.isnan, parts.values())):
        return (
            (0.0, "") if all(_same_nan(one[name], two[name]) for name in one) else (math.inf, next(iter(one)))
        )
    scale = math.sqrt(sum(float(value.norm()) ** 2 for value in one.values()))
    far = math.sqrt(sum(part**2 for part in parts.values()))
    worst = max(parts, key=lambda name: parts[name], default="")
    return (far / scale if scale else math.inf if far else 0.0), worst


def _same_nan(one: Tensor, two: Tensor) -> bool:
    return bool((one.isnan() == two.isnan()).all())
