"""Writing checkpoints: a snapshot of all ranks at a step, written by rank 0 while training goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline.api.hook import CheckpointPolicy
from pipeline.engine import weights
from pipeline.engine.background import Background
from pipeline.engine.checkpoint import Checkpointing
from pipeline.engine.checkpoint_size import checkpoint_size
from pipeline.engine.signals import Phase, Signals
from pipeline.engine.snapshot import Snapshot
from pipeline.runs.files import free_bytes
from pipeline.runs.layout import RunFolder
from pipeline.runs.metric_log import sync_rows
from pipeline.runs.retention import Retention, Score
from pipeline.runs.store import CheckpointStore, WriteError

Say = Callable[[str], None]
"""Prints a line for people, on rank 0."""


@dataclass
class Saver:
    """Writes the run's checkpoints by its policy; without one, all that are asked for are kept.

    Rank 0 alone knows whether a file is complete. If one cannot be written it raises, which ends all
    ranks; the others learn what is complete where they wait for it, in ``settle``.
    """

    checkpointing: Checkpointing
    policy: CheckpointPolicy | None
    folder: RunFolder
    background: Background
    """Does the writing; whoever made it waits for it when the attempt ends in an error."""
    signals: Signals
    say: Say
    saved_step: int
    """The step of the newest complete checkpoint, on rank 0."""
    _step: int | None = None
    """The step of the checkpoint that is being written, on rank 0."""
    _told_unscored: bool = False
    _told_waiting: bool = False

    def require_room(self) -> None:
        """Find out before the first step whether the folder takes a checkpoint, on rank 0.

        Raises:
            CheckpointError: if it takes no file, or has no room, unless the policy says to go on then.
        """
        if self.policy is None or not self.checkpointing.world.is_main:
            return
        assembly, store = self.checkpointing.assembly, self._store()
        self.checkpointing.run.position.set_phase("looking for room for checkpoints")
        weights.copied_extra(assembly.model)  # refused now, and not after an epoch, where it cannot be saved
        needed = checkpoint_size(assembly.model, assembly.optimizer)
        try:
            store.require_room(needed)
        except WriteError as error:
            if not self._tolerated(error):
                raise
            self.say(f"warning: {error}")
            return
        kept = self.policy.keep_last + (self.policy.keep_best if self.policy.monitor else 0)
        missing = kept + 1 - len(store.checkpoints())  # the new one is complete before an old one goes
        free = free_bytes(store.folder)
        if free is not None and free < needed * missing:
            self.say(
                f"warning: {store.folder}: {missing} more checkpoints of at least {needed} bytes are to lie "
                f"there ({kept} are kept, and one is written), and {free} bytes are free"
            )

    def save(self, reason: str) -> None:
        """Take a snapshot of this moment and begin to write it; all ranks call it together.

        A checkpoint that is still being written is waited for first, so that memory holds one
        snapshot at most and none is left out.

        Raises:
            CheckpointError: if a state cannot be saved, or the checkpoint before could not be written,
                unless the policy says to go on with a full disk.
        """
        run = self.checkpointing.run
        run.position.set_phase("saving a checkpoint")
        with self._not_ended_by_signals():
            self._finish(waits=True)
            snapshot = self.checkpointing.snapshot()
        if snapshot is not None:
            self._step = run.position.step
            self._begin(snapshot, self._step, reason, self._score())

    def check(self) -> None:
        """Take note of a checkpoint that is complete, or could not be written; once a step, no collective.

        Raises:
            CheckpointError: as ``save``, on rank 0.
        """
        if self._step is not None and not self.background.busy:
            self._finish()

    def settle(self) -> int:
        """Wait for the last file; all ranks call it together.

        Returns:
            The step of the newest complete checkpoint.

        Raises:
            CheckpointError: as ``save``, on rank 0, which ends the others.
        """
        self.checkpointing.run.position.set_phase("waiting for the last checkpoint to be written")
        with self._not_ended_by_signals():
            self._finish()
            step: int = self.checkpointing.group.broadcast(self.saved_step)
        return step

    def _begin(self, snapshot: Snapshot, step: int, reason: str, score: Score | None) -> None:
        def write() -> None:
            sync_rows(self.folder.metrics)  # so that no checkpoint is ahead of its log
            self._store().save(step, snapshot.files(), info={"reason": reason}, score=score)

        self.background.start(write, name=f"checkpoint of step {step}")

    def _finish(self, *, waits: bool = False) -> None:
        """Wait for the checkpoint that is being written, if one is: it is complete then, or raises."""
        step = self._step
        if step is None:
            return
        if waits and self.background.busy and not self._told_waiting:
            self._told_waiting = True
            due = self.checkpointing.run.position.step
            self.say(
                f"the checkpoint of step {due} waits for that of step {step}, which is still being written; "
                "they are due more often than this disk takes them (said once)"
            )
        error = self.background.wait()
        self._step = None
        if error is None:
            self.saved_step = step
        elif self._tolerated(error):
            self.say(f"warning: no checkpoint of step {step}: {error}")
        else:
            self.checkpointing.run.position.set_phase(f"writing the checkpoint of step {step}")
            raise error

    @contextmanager
    def _not_ended_by_signals(self) -> Iterator[None]:
        self.signals.phase = Phase.SAVING
        try:
            yield
        finally:
            self.signals.phase = Phase.TRAINING

    def _tolerated(self, error: BaseException) -> bool:
        return (
            isinstance(error, WriteError)
            and error.disk_full
            and self.policy is not None
            and self.policy.on_disk_full == "warn"
        )

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
            if not self._told_unscored and policy.monitor in run.metrics:
                self._told_unscored = True
                self.say(
                    f"a checkpoint at a step at which {policy.monitor} is not measured can never be the "
                    "best; let checkpoints and evaluations fall together"
                )
            return None
        return Score(policy.monitor, run.metrics[policy.monitor], policy.mode)
