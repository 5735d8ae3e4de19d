"""The engine on a workload: the config that says it, and the local components that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
from safetensors.torch import save_file
from torch.utils.data import Dataset

from benchmarks.job import LOG_EVERY, Job
from benchmarks.meter import Meter
from benchmarks.workloads import MOMENTUM, WORKLOADS
from pipeline import Hook, Run, register


def command(job: Job, world_size: int) -> list[str]:
    """The module to run with its arguments: ``pipeline run``, on a config that is written here."""
    config = Path(job.folder, f"{job.workload_name}.toml")
    config.write_text(tomli_w.dumps(_config(job, world_size)))
    return ["pipeline", "run", str(config), "--runs-dir", str(Path(job.folder, "runs"))]


def _config(job: Job, world_size: int) -> dict[str, Any]:
    """The engine's defaults, but for threads, seeds of samples and the missing evaluation."""
    workload = job.workload
    first = Path(job.folder, "first.safetensors")
    state = workload.make_model().state_dict()
    save_file({name: tensor.clone() for name, tensor in state.items()}, first)  # tied ones too
    accumulation = {"max_microbatch_size": workload.microbatch} if workload.accumulation > 1 else {}
    return {
        "name": workload.name,
        "seed": 7,
        "components": [str(Path(__file__).resolve())],
        "model": {**workload.model, "weights": str(first)},
        "dataset": {"train": {"type": "benchmark", "workload": workload.name}},
        "objective": {"type": workload.data.objective},
        "optimizer": {"type": "sgd", "lr": workload.learning_rate, "momentum": MOMENTUM},
        "sampler": {"type": "shuffle" if job.shuffle else "sequential"},
        "train": {
            "steps": job.steps,
            "global_batch_size": workload.batch_per_rank * world_size,
            "log_every": f"{LOG_EVERY} steps",
            "evaluate_every": "never",
            **accumulation,
        },
        "loader": {"drop_last": True, "workers": workload.workers, "sample_seeds": False},
        "distributed": {"device": "cpu", "threads": 1},
        "hooks": {"meter": {"job": str(Path(job.folder, "job.json"))}},
    }


@register("dataset", "benchmark")
def benchmark(workload: str) -> Dataset[Any]:
    """The workload's data."""
    return WORKLOADS[workload].data.make()


@register("hook", "meter")
class MeterHook(Hook):
    """Hangs the clock into the optimizer, and writes what it has seen."""

    ranks = "all"

    def __init__(self, job: Path) -> None:
        self._job = Job.read(job)

    def on_run_start(self, run: Run) -> None:
        self._meter = Meter(run.optimizer, self._job)

    def on_run_end(self, run: Run) -> None:
        if run.world.rank == 0:
            self._meter.write()
