"""The type of an argument that names a metric of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args


@dataclass(frozen=True)
class NamesMetric:
    """Marks an argument whose text is to be a value that the engine measures in this run."""


MetricName: TypeAlias = Annotated[str, NamesMetric()]
"""``DATASET/NAME``, ``DATASET/loss``, ``train/loss`` or ``lr``: a config that names another is refused."""


def is_measured(annotation: Any) -> bool:
    """Whether an annotation is, or contains, ``MetricName``."""
    if any(isinstance(mark, NamesMetric) for mark in getattr(annotation, "__metadata__", ())):
        return True
    return any(is_measured(argument) for argument in get_args(annotation))
