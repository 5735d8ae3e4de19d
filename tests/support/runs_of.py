"""Writing small configs and reading what a run left."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

PARTS = Path(__file__).parent / "parts" / "parts.py"

BASE: dict[str, Any] = {
    "name": "t",
    "seed": 11,
    "components": [str(PARTS), str(PARTS.with_name("killers.py"))],
    "model": {"type": "net"},
    "dataset": {
        "train": {"type": "points", "length": 40},
        "eval": {"type": "points", "length": 23},
    },
    "objective": {"type": "cross_entropy"},
    "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9},
    "metrics": {"accuracy": {}},
    "train": {"epochs": 3, "global_batch_size": 8, "log_every": "1 step"},
    "distributed": {"threads": 1, "timeout": "5 min"},
}


def write_config(folder: Path, *, base: Mapping[str, Any] = BASE, **changes: Any) -> Path:
    """A config in ``folder``: the base with keys replaced, ``section__key`` inside one; None removes."""
    tree: dict[str, Any] = copy.deepcopy(dict(base))
    for name, value in changes.items():
        *sections, key = name.split("__")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    path = folder / "config.toml"
    path.write_text(tomli_w.dumps(tree))
    return path


def only_run(runs_dir: Path) -> Path:
    """The one run folder in ``runs_dir``."""
    (folder,) = [path for path in runs_dir.iterdir() if path.is_dir()]
    return folder


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, without their times."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "time"} for line in lines]


def record_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def weights_of(folder: Path, checkpoint: str = "last") -> dict[str, Any]:
    """The tensors of a checkpoint's model."""
    import safetensors.torch

    name = (folder / "checkpoints" / checkpoint).read_text().strip() if checkpoint == "last" else checkpoint
    return safetensors.torch.load_file(folder / "checkpoints" / name / "model.safetensors")


def state_of(folder: Path) -> dict[str, Any]:
    """The other state of the last checkpoint."""
    import torch

    name = (folder / "checkpoints" / "last").read_text().strip()
    return torch.load(folder / "checkpoints" / name / "state.pt", weights_only=True)
