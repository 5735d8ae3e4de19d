"""Components examined one by one, in a process of their own, beside any training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Trouble:
    """What a probe has found about a component, in words."""

    message: str
    remedy: str = ""
    """Empty: what components of its kind must do."""


@dataclass(frozen=True)
class Probed:
    """What the probes have found, by the components' keys."""

    items: Mapping[str, Trouble] = field(default_factory=dict)
    """Datasets whose samples change from one reading to another."""
    streams: Mapping[str, Trouble] = field(default_factory=dict)
    """Iterable datasets whose shards are not the whole."""
    order: Trouble | None = None
    """Of a sampler that gives another order from one call to another."""
    metrics: Mapping[str, Trouble] = field(default_factory=dict)
    """Metrics whose states do not add up."""
    mean_objective: bool = False
    """The loss of a batch is the mean of those of its parts, not their sum."""
    in_batch: bool = False
    """The loss of a batch is no sum over its parts."""

    def write(self, file: Path) -> None:
        """As plain data."""
        plain: dict[str, Any] = dict(vars(self))
        for name in ("items", "streams", "metrics"):
            plain[name] = {key: vars(trouble) for key, trouble in plain[name].items()}
        plain["order"] = vars(self.order) if self.order else None
        torch.save(plain, file)

    @classmethod
    def read(cls, file: Path) -> Probed:
        data = torch.load(file, weights_only=True)
        for name in ("items", "streams", "metrics"):
            data[name] = {key: Trouble(**one) for key, one in data[name].items()}
        data["order"] = Trouble(**data["order"]) if data["order"] else None
        return cls(**data)
