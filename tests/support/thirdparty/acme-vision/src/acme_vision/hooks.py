"""A hook."""

from __future__ import annotations

import torch

from pipeline import Hook, Run


class WeightNorm(Hook):
    """Logs the norm of all parameters, once an epoch."""

    def on_epoch_end(self, run: Run) -> None:
        run.log("weight_norm", torch.nn.utils.parameters_to_vector(run.model.parameters()).norm())
