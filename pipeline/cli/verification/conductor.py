"""The hook by which a trial ends, saves or is killed where it is to."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.cli.verification.trial import Trial
from pipeline.engine.background import Background
from pipeline.errors import RunError

NAME = "pipeline verify"
_PATIENCE = 60.0  # seconds that a rank waits for the checkpoint before which none may die


def checkpoint_written(folder: Path) -> Path:
    """The file that says so, in the folder of a trial."""
    return folder / "written"


class Conductor(Hook):
    """Runs on all ranks, as the last hook."""

    ranks = "all"

    def __init__(self, trial: Trial, background: Background, folder: Path) -> None:
        self._trial = trial
        self._background = background
        self._written = checkpoint_written(folder)

    def on_step_end(self, run: Run) -> None:
        if run.step == self._trial.save_after:
            run.checkpoint(NAME)
        if run.step == self._trial.kill_after:
            self._kill(run)
        if run.step >= self._trial.steps:
            run.stop(NAME)

    def _kill(self, run: Run) -> None:
        """As the system does it: without a word, all ranks, the checkpoint complete."""
        if run.world.rank == 0:
            error = self._background.wait()
            if error is not None:
                raise error
            self._written.touch()
        deadline = time.monotonic() + _PATIENCE
        while not self._written.exists():
            if time.monotonic() > deadline:
                raise RunError(f"rank 0 has not written its checkpoint within {_PATIENCE:.0f} s")
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGKILL)
