"""The engine on a workload: the config that says it, and the local components that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
from torch.utils.data import TensorDataset

from benchmarks.meter import WINDOW, Meter
from benchmarks.workloads import WORKLOADS, Workload, make_rows
from pipeline import Hook, Run, register


def write_config(workload: Workload, world_size: int, folder: Path, output: Path) -> Path:
    """A config of the workload with the engine's defaults, but for threads and the missing evaluation."""
    tree: dict[str, Any] = {
        "name": workload.name,
        "seed": 7,
        "components": [str(Path(__file__).resolve())],
        "model": dict(workload.model),
        "dataset": {"train": {"type": "rows", "workload": workload.name}},
        "objective": {"type": "mse" if workload.classes is None else "cross_entropy"},
        "optimizer": {"type": "sgd", "lr": workload.learning_rate, "momentum": 0.9},
        "train": {
            "steps": workload.total_steps,
            "global_batch_size": workload.batch_per_rank * world_size,
            "log_every": f"{WINDOW} steps",
            "evaluate_every": "never",
        },
        "loader": {"drop_last": True},
        "distributed": {"device": "cpu", "threads": 1},
        "hooks": {"meter": {"warm_steps": workload.warm_steps, "output": str(output)}},
    }
    path = folder / f"{workload.name}.toml"
    path.write_text(tomli_w.dumps(tree))
    return path


@register("dataset", "rows")
def rows(workload: str) -> TensorDataset:
    """The workload's rows, in memory."""
    return make_rows(WORKLOADS[workload])


@register("hook", "meter")
class MeterHook(Hook):
    """Hangs the clock into the optimizer, and writes what it has seen."""

    ranks = "all"

    def __init__(self, warm_steps: int, output: Path) -> None:
        self._warm_steps = warm_steps
        self._output = output

    def on_run_start(self, run: Run) -> None:
        self._meter = Meter(run.optimizer, self._warm_steps)

    def on_run_end(self, run: Run) -> None:
        if run.world.rank == 0:
            self._meter.write(self._output)
