"""Ending a run that has diverged."""

from __future__ import annotations

import math

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.errors import RunError


class NanGuard(Hook):
    """Fails the run when its training loss, or the loss of an evaluation, is NaN or infinite.

    The training loss is watched at every step, on the device, and looked at only at log points,
    evaluations and before checkpoints; the report names the first step that went wrong, and no
    checkpoint of that step or of a later one is written.
    """

    requires_finite_loss = True

    def on_evaluate_end(self, run: Run) -> None:
        for name, step in run.metrics_steps.items():
            is_new_loss = step == run.step and name.endswith("/loss")
            if is_new_loss and not math.isfinite(run.metrics[name]):
                raise RunError(
                    f"nan_guard: {name} is {run.metrics[name]} at step {step}; expected a finite loss: "
                    "lower the learning rate, set train.clip_grad_norm, or look for bad samples"
                )
