"""The type of an argument that names a metric of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias


@dataclass(frozen=True)
class NamesMetric:
    """Marks an argument whose text is to be a value that the engine measures in this run."""


MetricName: TypeAlias = Annotated[str, NamesMetric()]
"""``DATASET/NAME``, ``DATASET/loss``, ``train/loss`` or ``lr``: a config that names another is refused."""
