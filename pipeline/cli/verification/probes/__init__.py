"""Components examined one by one, in a process of their own, beside any training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

_BY_KEY = ("items", "streams", "orders", "metrics")


@dataclass(frozen=True)
class Trouble:
    """What a probe has found about a component, in words."""

    message: str
    remedy: str = ""
    """Empty: what components of its kind must do."""


def gist(error: Exception) -> str:
    """What an error says; of one whose text has a worker's traceback, the lines after that."""
    lines = str(error).splitlines() or [type(error).__name__]
    after = next((at for at in range(len(lines), 0, -1) if lines[at - 1].startswith(" ")), 0)
    return "; ".join(filter(None, lines[after:]))


@dataclass(frozen=True)
class Probed:
    """What the probes have found, by the components' keys."""

    items: Mapping[str, Trouble] = field(default_factory=dict)
    """Datasets whose samples change from one reading to another."""
    streams: Mapping[str, Trouble] = field(default_factory=dict)
    """Iterable datasets whose shards are not the whole."""
    orders: Mapping[str, Trouble] = field(default_factory=dict)
    """Samplers that give another order from one call to another."""
    metrics: Mapping[str, Trouble] = field(default_factory=dict)
    """Metrics whose states do not add up."""
    mean_objective: bool = False
    """The loss of a batch is the mean of those of its parts, not their sum."""
    in_batch: bool = False
    """The loss of a batch is no sum over its parts."""

    def write(self, file: Path) -> None:
        """As plain data."""
        plain: dict[str, Any] = dict(vars(self))
        for name in _BY_KEY:
            plain[name] = {key: vars(trouble) for key, trouble in plain[name].items()}
        torch.save(plain, file)

    @classmethod
    def read(cls, file: Path) -> Probed:
        data = torch.load(file, weights_only=True)
        for name in _BY_KEY:
            data[name] = {key: Trouble(**one) for key, one in data[name].items()}
        return cls(**data)
