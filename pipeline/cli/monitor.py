"""The metric that tells which of two runs is the better one."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.config.plan import Plan


@dataclass(frozen=True)
class Monitor:
    """The metric that decides which checkpoint is the best."""

    metric: str
    mode: str


def monitor_of(plan: Plan) -> Monitor | None:
    """The checkpoint hook's, by whatever name it stands in the config."""
    for hook in plan.hooks.values():
        metric = hook.arguments.get("monitor")
        if hook.type.rpartition("/")[2] == "checkpoint" and metric is not None:
            return Monitor(str(metric), str(hook.arguments.get("mode")))
    return None
