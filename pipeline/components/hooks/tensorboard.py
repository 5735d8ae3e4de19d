"""Event files for TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.errors import ComponentError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Hook):
    """Writes every metric of the run to the folder tensorboard/ in the run folder.

    Needs the extra: pip install 'pipeline-ddp[tensorboard]'.
    """

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None
        self._seen: dict[str, int] = {}

    def on_run_start(self, run: Run) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ComponentError(
                "hook tensorboard needs the package tensorboard: pip install 'pipeline-ddp[tensorboard]'"
            ) from error
        # What a killed attempt wrote past the checkpoint is taken back; without one, all of it.
        self._writer = SummaryWriter(run.folder / "tensorboard", purge_step=run.step + 1)
        self._seen = dict(run.metrics_steps)

    def on_step_end(self, run: Run) -> None:
        self._write_new(run)

    def on_run_end(self, run: Run) -> None:
        self._write_new(run)
        self._close()

    def on_exception(self, run: Run, error: BaseException) -> None:
        self._close()

    def _write_new(self, run: Run) -> None:
        """Write the values measured since the last call."""
        if self._writer is None or self._seen == run.metrics_steps:
            return
        for name, step in run.metrics_steps.items():
            if self._seen.get(name) != step:
                self._writer.add_scalar(name, run.metrics[name], step)
        self._writer.flush()  # no later than a checkpoint that a killed run is resumed from
        self._seen = dict(run.metrics_steps)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
