"""What a run's folder says, for trackers that show it elsewhere."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Plain = str | int | float | bool
_COLUMNS = ("step", "epoch", "time")  # of every row


def settings(folder: Path) -> dict[str, Any]:
    """The resolved config, as config.toml has it: without secrets."""
    return tomllib.loads((folder / "config.toml").read_text("utf-8"))


def flat_settings(folder: Path) -> dict[str, Plain]:
    """The same by dotted key; a list is one value, as TOML writes it."""
    return dict(_flat(settings(folder), ""))


def parent(folder: Path) -> str | None:
    """The folder's name of the run that this one was started from."""
    record = json.loads((folder / "run.json").read_text("utf-8"))
    return record["parent"]["run"] if record.get("parent") else None


def values_by_step(folder: Path, last_step: int) -> dict[int, dict[str, float]]:
    """The values that metrics.jsonl has, up to a step, which may have more than one row."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    with (folder / "metrics.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["step"] <= last_step:
                found[row["step"]] |= {name: float(one) for name, one in row.items() if name not in _COLUMNS}
    return found


def _flat(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, Plain]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, Plain):
            yield f"{prefix}{key}", value
        else:
            yield f"{prefix}{key}", json.dumps(value, default=str)
