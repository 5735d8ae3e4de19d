"""A config-driven PyTorch trainer; what is exported here is the whole public API.

The names are loaded when they are first used, so that commands which train nothing never import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.api.hook import Hook
    from pipeline.api.metric import Metric
    from pipeline.api.metric_name import MetricName
    from pipeline.api.outcome import Outcome
    from pipeline.api.register import register
    from pipeline.api.run import Run
    from pipeline.cli.library import check, diff, load_config, run
    from pipeline.engine.epoch_sampler import EpochSampler
    from pipeline.errors import CheckpointError, ComponentError, ConfigError, PipelineError, Problem, RunError

_HOMES = {
    "CheckpointError": "pipeline.errors",
    "ComponentError": "pipeline.errors",
    "ConfigError": "pipeline.errors",
    "EpochSampler": "pipeline.engine.epoch_sampler",
    "Hook": "pipeline.api.hook",
    "Metric": "pipeline.api.metric",
    "MetricName": "pipeline.api.metric_name",
    "Outcome": "pipeline.api.outcome",
    "PipelineError": "pipeline.errors",
    "Problem": "pipeline.errors",
    "Run": "pipeline.api.run",
    "RunError": "pipeline.errors",
    "check": "pipeline.cli.library",
    "diff": "pipeline.cli.library",
    "load_config": "pipeline.cli.library",
    "register": "pipeline.api.register",
    "run": "pipeline.cli.library",
}

__all__ = [
    "CheckpointError",
    "ComponentError",
    "ConfigError",
    "EpochSampler",
    "Hook",
    "Metric",
    "MetricName",
    "Outcome",
    "PipelineError",
    "Problem",
    "Run",
    "RunError",
    "check",
    "diff",
    "load_config",
    "register",
    "run",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pipeline' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
