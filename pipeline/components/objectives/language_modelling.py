"""Next-token prediction."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn

from pipeline.api.outcome import Outcome
from pipeline.components.objectives.pair import inputs_and_targets


class LanguageModelling:
    """Cross entropy in nats, summed over the counted tokens: each token counts as much as any other.

    Takes logits (N, T, V) and the tokens that come next (N, T), int64.

    Args:
        ignore_index: a target that is not counted, as padding.
        inputs: the key of the tokens where a batch is a mapping.
        targets: the key of the next tokens where a batch is a mapping.
    """

    def __init__(self, ignore_index: int = -100, inputs: str = "inputs", targets: str = "targets") -> None:
        self.ignore_index = ignore_index
        self.inputs = inputs
        self.targets = targets

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        inputs, targets = inputs_and_targets(batch, self.inputs, self.targets)
        logits = model(inputs)
        if logits.dim() != 3 or logits.shape[:2] != targets.shape:
            raise ValueError(
                f"expected logits (N, T, V) and targets (N, T), "
                f"got {tuple(logits.shape)} and {tuple(targets.shape)}"
            )
        loss = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=self.ignore_index, reduction="sum"
        )
        counted = (targets != self.ignore_index).sum()  # stays on the device: nothing waits for it
        return Outcome(loss, counted, predictions=logits, targets=targets)
