"""When checkpoints are written, and how many are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge

from pipeline.api.hook import CheckpointPolicy, Hook
from pipeline.api.metric_name import MetricName
from pipeline.api.period import Period


class Checkpoint(Hook):
    """Says when the engine writes checkpoints and which of them it keeps.

    Args:
        every: how often.
        keep_last: how many of the newest are kept.
        keep_best: how many of the best by ``monitor`` are kept besides.
        monitor: the metric that says which is best, as eval/accuracy; default: none is.
        mode: whether the best is the lowest or the highest.
        on_disk_full: end the run, or go on with a warning; older checkpoints are kept in either case.
    """

    def __init__(
        self,
        every: Period = Period(1, "epoch"),
        *,
        keep_last: Annotated[int, Ge(1)] = 2,
        keep_best: Annotated[int, Ge(0)] = 1,
        monitor: MetricName | None = None,
        mode: Literal["min", "max"] = "min",
        on_disk_full: Literal["stop", "warn"] = "stop",
    ) -> None:
        self.checkpoint_policy = CheckpointPolicy(
            every=every,
            keep_last=keep_last,
            keep_best=keep_best,
            monitor=monitor,
            mode=mode,
            on_disk_full=on_disk_full,
        )
