"""The order of the training samples: whether it is the same however it is asked for."""

from __future__ import annotations

from typing import Any

from pipeline.api.seeds import derive_seed
from pipeline.cli.verification.probes import Trouble
from pipeline.engine.builder import Builder
from pipeline.engine.experiment import Experiment
from pipeline.engine.group import Alone
from pipeline.engine.orders import as_order

_POSITIONS = 64


def trouble(builder: Builder, experiment: Experiment, dataset: Any) -> Trouble | None:
    """Ask for the first positions of an epoch twice, the second time from their middle on first."""
    part = experiment.sampler
    sampler = builder.build(part, dataset, seed=experiment.seed)
    order = as_order(sampler, Alone(), derive_seed(experiment.seed, "sampler"), part, is_main=True)
    if hasattr(order, "set_epoch"):
        order.set_epoch(0)
    stop = min(_POSITIONS, order.samples_per_epoch)
    once = order.indices(0, 0, stop).tolist()
    late, early = order.indices(0, stop // 2, stop).tolist(), order.indices(0, 0, stop // 2).tolist()
    again = early + late
    differing = [
        position for position, pair in enumerate(zip(once, again, strict=True)) if len(set(pair)) > 1
    ]
    if not differing:
        return None
    at = differing[0]
    return Trouble(
        f"at position {at} of epoch 0 it gives sample {once[at]}, and {again[at]} when asked again"
    )
