"""The first step whose training loss is not finite, found without looking at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.api.metric import State
from pipeline.engine.group import Group
from pipeline.engine.position import Position
from pipeline.engine.reduction import reduce_states
from pipeline.errors import RunError

NAME = "the first step that is not finite"

_NONE = torch.iinfo(torch.int64).max


class LossGuard:
    """A flag on the device, set at every step and read where the ranks look at values anyway.

    Args:
        hook: the name of the hook that asks for it, for the report.
    """

    def __init__(self, hook: str, device: torch.device, position: Position) -> None:
        self._hook = hook
        self._position = position
        self._first = torch.full((), _NONE, dtype=torch.int64, device=device)
        self._read_at = -1

    def note(self, finite: Tensor) -> None:
        """Take in whether the step just done is finite on this rank, a bool () on the device."""
        self._first = torch.where(finite, self._first, self._first.clamp(max=self._position.step))

    @property
    def state(self) -> State:
        """For the fused collective: the first on any rank."""
        return State(self._first, "min")

    def check(self, group: Group) -> None:
        """Look at the flags of all ranks, which call it together; no second time at the same step.

        Raises:
            RunError: on all ranks, naming the first step that is not finite.
        """
        if self._read_at != self._position.step:
            self.require(reduce_states([self.state], group, [NAME])[0])

    def require(self, first: Tensor) -> None:
        """Take the joined state of all ranks.

        Raises:
            RunError: as ``check``.
        """
        self._read_at = self._position.step
        if int(first) != _NONE:
            self._position.set_phase(f"hooks.{self._hook}")
            raise RunError(
                f"{self._hook}: train/loss is not finite at step {int(first)}, the first such step; no "
                "checkpoint of it or of a later step is written: lower the learning rate, set "
                "train.clip_grad_norm, or look for bad samples"
            )
