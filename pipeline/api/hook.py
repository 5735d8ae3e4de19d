"""The base class of hooks, and the whole loop with every hook point in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pipeline.api.period import Period

if TYPE_CHECKING:
    from pipeline.api.run import Run

Ranks = Literal["all", "main", "local_main"]
"""On which ranks a hook runs: all, rank 0 alone, or local rank 0 of every host."""


@dataclass(frozen=True)
class CheckpointPolicy:
    """When the engine writes checkpoints and how many it keeps."""

    every: Period
    keep_last: int = 2
    keep_best: int = 1
    monitor: str | None = None
    mode: Literal["min", "max"] = "min"
    on_disk_full: Literal["stop", "warn"] = "stop"


class Hook:
    """Something that happens beside the training: override the methods you need.

    Only overridden methods are ever called. The loop, with every hook point::

        on_run_start(run)                      # after a checkpoint is restored, before the first step
        for epoch in epochs:
            on_epoch_start(run)
            for batch in epoch:
                forward, backward, all-reduce, clip, optimizer, scheduler
                a row of metrics.jsonl, if log_every is due
                evaluation, if evaluate_every is due
                on_step_end(run)
                on_evaluate_end(run)           # if it evaluated
                on_epoch_end(run)              # if the epoch is done
                a checkpoint, if one is due or was asked for
        on_run_end(run)                        # the length is reached, or a hook or a signal asked to stop
        on_exception(run, error)               # instead, where something raised

    Hooks run in the order of the config file. Where ``ranks`` gates a hook, the engine calls it
    on those ranks only; a gated hook must not start a collective.
    """

    ranks: ClassVar[Ranks] = "main"
    """Where the hook runs unless its table's ``ranks`` says otherwise."""

    checkpoint_policy: CheckpointPolicy | None = None
    """Set by the one hook of a run that decides when checkpoints are written."""

    requires_finite_loss: ClassVar[bool] = False
    """Whether the run is to fail at the first step whose training loss is not finite on some rank. The
    engine watches it on the device, and writes no checkpoint of that step or of a later one."""

    measured: ClassVar[frozenset[str]] = frozenset()
    """Names of logged values that are measured, as a time or a rate: a repeated or resumed run has
    others there, and is the same for all that."""

    def on_run_start(self, run: Run) -> None:
        """Before the first step of this attempt, after any restore. Drawing moves no training stream."""

    def on_epoch_start(self, run: Run) -> None:
        """Before the first batch of an epoch; not called again where a resume enters it midway."""

    def on_step_end(self, run: Run) -> None:
        """After every optimizer step."""

    def on_evaluate_end(self, run: Run) -> None:
        """After an evaluation; ``run.metrics`` has its values."""

    def on_epoch_end(self, run: Run) -> None:
        """After the last step of an epoch and its evaluation."""

    def on_exception(self, run: Run, error: BaseException) -> None:
        """When this rank fails; the error is raised again afterwards."""

    def on_run_end(self, run: Run) -> None:
        """After the last step of this attempt and its checkpoint; a run that a signal stopped may go on."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs: tensors, numbers, text, and lists and dicts of these."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""


EVENTS = tuple(name for name in vars(Hook) if name.startswith("on_"))
"""The names of all hook methods that the loop calls."""
