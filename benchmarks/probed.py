"""A run of ``pipeline run`` that a probe looks at."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w

from benchmarks.processes import ROOT, FailedError, environment
from benchmarks.sides.engine import PARTS
from benchmarks.workloads import MOMENTUM, WORKLOADS

PROBES = Path(__file__).resolve().with_name("probes.py")
"""Read by the run alone: importing it registers what is in it."""


def probed(workload_name: str, **tables: Mapping[str, Any]) -> Any:
    """Train a workload with one rank; what the probe among its hooks has seen.

    Args:
        tables: of the config, beside or instead of those that the workload gives.

    Raises:
        FailedError: if the run fails; with its output.
    """
    with TemporaryDirectory() as folder:
        config = Path(folder, "probed.toml")
        config.write_text(tomli_w.dumps(_config(workload_name) | tables))
        command = [
            sys.executable,
            "-m",
            "pipeline",
            "run",
            str(config),
            "--runs-dir",
            str(Path(folder, "runs")),
        ]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise FailedError(f"{config.read_text()}\n{done.stdout}{done.stderr}")
        (told,) = Path(folder, "runs").glob("*/told.json")
        return json.loads(told.read_text())


def train_table(workload_name: str, **keys: Any) -> dict[str, Any]:
    """The table of the training, without evaluations and rows of metrics unless keys ask for them."""
    batch = WORKLOADS[workload_name].batch_per_rank
    quiet = {"evaluate_every": "never", "log_every": "1000 steps"}
    return {"global_batch_size": batch, **quiet, **keys}


def _config(workload_name: str) -> dict[str, Any]:
    workload = WORKLOADS[workload_name]
    return {
        "seed": 7,
        "components": [str(PARTS), str(PROBES)],
        "model": dict(workload.model),
        "dataset": {"train": {"type": "benchmark", "workload": workload_name}},
        "objective": {"type": workload.data.objective},
        "optimizer": {"type": "sgd", "lr": workload.learning_rate, "momentum": MOMENTUM},
        "distributed": {"device": "cpu", "threads": 1},
    }
