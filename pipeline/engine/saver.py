"""Writing a checkpoint: gathered from all ranks, written by rank 0, and known to all before they go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.api.hook import CheckpointPolicy
from pipeline.engine.checkpoint import Checkpointing
from pipeline.engine.signals import Phase, Signals
from pipeline.runs.layout import RunFolder
from pipeline.runs.retention import Retention, Score
from pipeline.runs.store import CheckpointStore, WriteError

Say = Callable[[str], None]
"""Prints a line for people, on rank 0."""


@dataclass
class Saver:
    """Writes the run's checkpoints by its policy; without one, all that are asked for are kept."""

    checkpointing: Checkpointing
    policy: CheckpointPolicy | None
    folder: RunFolder
    signals: Signals
    say: Say

    def save(self, reason: str) -> None:
        """Write a checkpoint of this moment; all ranks call it together and learn how it went.

        Raises:
            CheckpointError: if it cannot be written, unless the policy says to go on with a full disk.
        """
        run, group = self.checkpointing.run, self.checkpointing.group
        run.position.set_phase("saving a checkpoint")
        self.signals.phase = Phase.SAVING
        try:
            files = self.checkpointing.files()
            error = None
            if self.checkpointing.world.is_main:
                try:
                    self._store().save(run.position.step, files, info={"reason": reason}, score=self._score())
                except WriteError as failed:
                    error = failed
            if group.broadcast(error is None):
                return
            self._failed(error)
        finally:
            self.signals.phase = Phase.TRAINING

    def _failed(self, error: WriteError | None) -> None:
        """Rank 0 could not write: go on where the policy says so, or end with its error."""
        group = self.checkpointing.group
        goes_on = bool(
            group.broadcast(
                error is not None
                and error.disk_full
                and self.policy is not None
                and self.policy.on_disk_full == "warn"
            )
        )
        if goes_on:
            self.say(f"warning: no checkpoint of step {self.checkpointing.run.position.step}: {error}")
        elif error is not None:
            raise error
        else:
            group.barrier()  # rank 0 is about to end every rank with its error

    def _store(self) -> CheckpointStore:
        policy = self.policy
        retention = Retention(policy.keep_last, policy.keep_best) if policy else Retention(keep_last=None)
        return CheckpointStore(self.folder.checkpoints, retention=retention)

    def _score(self) -> Score | None:
        """The monitored metric, if the last evaluation gave it."""
        if self.policy is None or self.policy.monitor is None:
            return None
        value = self.checkpointing.run.metrics.get(self.policy.monitor)
        return None if value is None else Score(self.policy.monitor, value, self.policy.mode)
