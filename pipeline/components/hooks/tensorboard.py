"""Event files for TensorBoard."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pipeline.api.run import Run
from pipeline.components.hooks.run_folder import flat_settings
from pipeline.components.hooks.tracker import Tracker, missing

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Tracker):
    """Writes every metric of the run to the folder tensorboard/ in the run folder, and the settings.

    The settings are there when the run has ended, for the page that compares runs by them.

    Needs the extra: pip install 'pipeline-ddp[tensorboard]'.

    Args:
        graph: whether the model's graph is drawn too, from the first input of this attempt: it needs a
            model that torch.jit can trace, and the memory of one more copy of it.
    """

    def __init__(self, graph: bool = False) -> None:
        super().__init__()
        self.graph = graph
        self._writer: SummaryWriter | None = None
        self._watch: RemovableHandle | None = None
        self._inputs: tuple[Any, ...] | None = None

    def open(self, run: Run) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing("tensorboard", "tensorboard") from error
        # What a killed attempt wrote past the checkpoint is taken back; without one, all of it.
        self._writer = SummaryWriter(run.folder / "tensorboard", purge_step=run.step + 1)
        if self.graph:
            self._watch = run.model.register_forward_pre_hook(self._keep_inputs)

    def on_step_end(self, run: Run) -> None:
        if self._inputs is not None:
            inputs, self._inputs = self._inputs, None
            with self._forgiven():
                self._draw_graph(run.model, inputs)
        super().on_step_end(run)

    def write(self, run: Run, step: int, values: Mapping[str, float]) -> None:
        assert self._writer is not None
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # no later than a checkpoint that a killed run is resumed from

    def close(self, run: Run, error: BaseException | None) -> None:
        if self._writer is None:
            return
        if error is None:
            self._write_settings(run)
        self._writer.close()
        self._writer = None

    def _write_settings(self, run: Run) -> None:
        """As ``add_hparams`` does, but beside the metrics: it would make a folder of its own."""
        from torch.utils.tensorboard.summary import hparams

        assert self._writer is not None and self._writer.file_writer is not None
        for summary in hparams(flat_settings(run.folder), dict(run.metrics)):
            self._writer.file_writer.add_summary(summary)

    def _keep_inputs(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._inputs = inputs
        if self._watch is not None:
            self._watch.remove()
            self._watch = None

    def _draw_graph(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Of a copy, with the random streams put back: drawing must not be seen in the training."""
        if self._writer is None:
            return
        with torch.random.fork_rng(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, which add_graph uses
            self._writer.add_graph(copy.deepcopy(model).eval(), inputs)
