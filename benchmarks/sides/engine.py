"""The engine on a workload: the config that says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
from safetensors.torch import save_file

from benchmarks.job import LOG_EVERY, Job
from benchmarks.workloads import MOMENTUM

PARTS = Path(__file__).resolve().with_name("engine_parts.py")
"""Read by the run alone: importing it registers what is in it."""


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
        "components": [str(PARTS)],
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
