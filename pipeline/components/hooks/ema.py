"""An exponential moving average of the parameters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from pipeline.api.hook import Hook
from pipeline.api.period import Period
from pipeline.api.run import Run
from pipeline.errors import RunError


class EMA(Hook):
    """Averages the parameters beside the training, which it does not change.

    At the end of the run the averages, with the model's buffers as they are, are in ema.safetensors in
    the run folder, under the model's own names.

    Args:
        decay: what is kept of the average at each update.
        every: how often it is updated.
    """

    def __init__(
        self, decay: Annotated[float, Ge(0), Lt(1)] = 0.999, every: Period = Period(1, "step")
    ) -> None:
        self.decay = decay
        self.every = every
        self._averages: dict[str, Tensor] = {}

    def on_run_start(self, run: Run) -> None:
        parameters = _floating_parameters(run.model)
        if not self._averages:
            self._averages = {name: parameter.detach().clone() for name, parameter in parameters.items()}
            return
        if self._averages.keys() != parameters.keys():
            differing = sorted(self._averages.keys() ^ parameters.keys())
            raise RunError(
                f"ema: the saved averages are of another model; only one has {', '.join(differing)}"
            )
        for name, parameter in parameters.items():
            self._averages[name] = self._averages[name].to(parameter.device)

    def on_step_end(self, run: Run) -> None:
        if self.every.due(step=run.step, epochs_done=0, at_epoch_end=False):
            self._update(run.model)

    def on_epoch_end(self, run: Run) -> None:
        if self.every.unit == "epoch" and self.every.due(
            step=run.step, epochs_done=run.epoch + 1, at_epoch_end=True
        ):
            self._update(run.model)

    @torch.no_grad()
    def _update(self, model: nn.Module) -> None:
        parameters = _floating_parameters(model)
        torch._foreach_lerp_(
            [self._averages[name] for name in parameters], list(parameters.values()), 1 - self.decay
        )

    def on_run_end(self, run: Run) -> None:
        _save(_with_averages(run.model, self._averages), run.folder / "ema.safetensors")

    def state_dict(self) -> dict[str, Any]:
        return {"averages": self._averages}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._averages = dict(state["averages"])


def _floating_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """By name, each once where parameters are tied."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.is_floating_point()}


def _with_averages(model: nn.Module, averages: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's state with each parameter's average in its place, tied ones under each of their names."""
    by_identity = {id(p): averages[name] for name, p in _floating_parameters(model).items()}
    state = model.state_dict(keep_vars=True)
    return {
        name: by_identity.get(id(tensor), tensor).detach().cpu().contiguous().clone()
        for name, tensor in state.items()
        if isinstance(tensor, Tensor)
    }


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    """Write beside, flush, rename: under its name the file is always whole."""
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.partial")
    save_file(tensors, temporary)
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
