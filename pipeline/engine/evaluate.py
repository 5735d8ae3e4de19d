"""Evaluation: every sample once, sums of all ranks joined in one collective, training undisturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pipeline.api.metric import Metric, State
from pipeline.engine import random_state
from pipeline.engine.group import Group
from pipeline.engine.loss_total import LossTotal
from pipeline.engine.reduction import reduce_states
from pipeline.engine.share import ShareReader
from pipeline.engine.step_module import StepModule, to_device
from pipeline.errors import ComponentError


@dataclass
class Evaluator:
    """What an evaluation needs, all of it built."""

    step_module: StepModule
    """Bare: an evaluation starts no collective before its end."""
    readers: Mapping[str, ShareReader]
    metrics: Mapping[str, Metric]
    group: Group
    device: torch.device
    on_phase: Callable[[str], None]
    leave: Callable[[], bool] = lambda: False
    """Asked before every batch: whether this rank is to leave the evaluation, since the run is to stop."""
    _left: bool = False

    def run(self, epoch: int) -> dict[str, float] | None:
        """The loss and every metric on every evaluation dataset, equal on all ranks.

        None, on all ranks, if one has left the evaluation; the others may have waited for it already.
        """
        states: dict[str, State] = {}
        self._left = False
        with torch.no_grad(), random_state.preserved(), evaluating(self.step_module):
            for dataset, reader in self.readers.items():
                for name, state in self._pass(dataset, reader, epoch).items():
                    states[f"{dataset}/{name}"] = state
        states["left"] = State(torch.tensor(int(self._left)), "sum")
        joined = reduce_states(list(states.values()), self.group, list(states))
        reduced = dict(zip(states, joined, strict=True))
        if reduced["left"]:
            return None
        values: dict[str, float] = {}
        for dataset in self.readers:
            loss, weight = reduced[f"{dataset}/loss"].tolist()
            values[f"{dataset}/loss"] = loss / weight if weight else float("nan")
            for name, metric in self.metrics.items():
                prefix = f"{dataset}/{name}."
                own = {key[len(prefix) :]: value for key, value in reduced.items() if key.startswith(prefix)}
                values[f"{dataset}/{name}"] = self._compute(name, metric, own)
        return values

    def _pass(self, dataset: str, reader: ShareReader, epoch: int) -> dict[str, State]:
        """One dataset's sums on this rank: ``loss`` (2,) and the metrics' states as ``METRIC.STATE``."""
        total = LossTotal(self.device)
        for metric in self.metrics.values():
            metric.reset(self.device)
        self.on_phase(f"dataset.{dataset}")
        for share in reader.epoch(epoch):
            if self._left:
                break
            for size in share.sizes:
                self._left = self._left or self.leave()
                if self._left:
                    break
                self.on_phase(f"dataset.{dataset}")
                batch = to_device(next(share.microbatches), self.device)
                self.on_phase("objective")
                outcome = self.step_module.outcome(batch)
                total.add(outcome.loss, size if outcome.weight is None else outcome.weight)
                for name, metric in self.metrics.items():
                    self.on_phase(f"metrics.{name}")
                    metric.update(outcome)
        return {
            "loss": State(total.sums(), "sum"),
            **{
                f"{name}.{key}": state
                for name, metric in self.metrics.items()
                for key, state in metric.states().items()
            },
        }

    def _compute(self, name: str, metric: Metric, joined: Mapping[str, Tensor]) -> float:
        """A metric's value from the joined states of all ranks."""
        self.on_phase(f"metrics.{name}")
        metric.load_states(joined)
        value = metric.compute()
        if isinstance(value, Tensor):
            if value.numel() != 1:
                raise ComponentError(
                    f"metrics.{name} computed a value of shape {tuple(value.shape)}; expected a scalar"
                )
            return float(value.item())
        return float(value)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In evaluation mode inside; afterwards every submodule's own mode, as it was."""
    modes = [(submodule, submodule.training) for submodule in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for submodule, mode in modes:
            submodule.training = mode
