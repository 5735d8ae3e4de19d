"""Ending a run that has diverged."""

from __future__ import annotations

import math

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.errors import RunError


class NanGuard(Hook):
    """Fails the run when train/loss, or the loss of an evaluation, is NaN or infinite.

    It looks at values that are read anyway, at log points and evaluations, so it costs nothing; the
    step that went wrong lies between the last log point and the one that it names.
    """

    def on_step_end(self, run: Run) -> None:
        for name, step in run.metrics_steps.items():
            is_new_loss = step == run.step and name.endswith("/loss")
            if is_new_loss and not math.isfinite(run.metrics[name]):
                raise RunError(
                    f"nan_guard: {name} is {run.metrics[name]} at step {step}; expected a finite loss: "
                    "lower the learning rate, set train.clip_grad_norm, or look for bad samples"
                )
