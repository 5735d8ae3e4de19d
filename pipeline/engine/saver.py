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
    _told: bool = False

    def save(self, reason: str) -> bool:
        """Write a checkpoint of this moment; all ranks call it together and learn how it went.

        Returns:
            False: the disk is full, and the policy says to go on.

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
                return True
            self._failed(error)
            return False
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
        """The monitored metric, if it was measured at this very step: a score is of these weights."""
        run, policy = self.checkpointing.run, self.policy
        if policy is None or policy.monitor is None:
            return None
        if run.metrics_steps.get(policy.monitor) != run.position.step:
            if not self._told and policy.monitor in run.metrics:
                self._told = True
                self.say(
                    f"a checkpoint at a step at which {policy.monitor} is not measured can never be the "
                    "best; let checkpoints and evaluations fall together"
                )
            return None
        return Score(policy.monitor, run.metrics[policy.monitor], policy.mode)
