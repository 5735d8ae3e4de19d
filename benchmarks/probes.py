"""The local components of a run that is looked at: hooks that write what they see to told.json."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.resident import resident
from benchmarks.workloads import WORKLOADS
from pipeline import Hook, Run, register


class Probe(Hook):
    """Keeps a list, and writes it at the end."""

    ranks = "main"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_run_end(self, run: Run) -> None:
        (run.folder / "told.json").write_text(json.dumps(self.seen))


@register("hook", "moments")
class Moments(Probe):
    """When every N-th update was made, in seconds of ``perf_counter``."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def on_run_start(self, run: Run) -> None:
        _after_update(run, self._note)
        self._updates = 0

    def _note(self) -> None:
        self._updates += 1
        if self._updates % self._every == 0:
            self.seen.append(time.perf_counter())


@register("hook", "reported")
class Reported(Probe):
    """At every row of metrics: the time in seconds, the samples so far, and the speed that the row shows."""

    def on_step_end(self, run: Run) -> None:
        if run.metrics_steps.get("train/loss") == run.step:
            speed = run.metrics.get("throughput/samples_per_second")
            self.seen.append((time.perf_counter(), run.samples_seen, speed))


@register("hook", "resident")
class Resident(Probe):
    """Memory in MB, every so many steps."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def on_step_end(self, run: Run) -> None:
        if run.step % self._every == 0:
            self.seen.append(resident("VmRSS"))


@register("hook", "peak")
class Peak(Probe):
    """The most memory in MB that the process has held."""

    def on_run_end(self, run: Run) -> None:
        self.seen = [resident("VmHWM")]
        super().on_run_end(run)


@register("hook", "bare_evaluation")
class BareEvaluation(Probe):
    """Of every evaluation its seconds, from the update before it on, and those of a bare forward loop."""

    def __init__(self, workload: str, batch: int) -> None:
        super().__init__()
        self._batches = [tensor.split(batch) for tensor in WORKLOADS[workload].data.make().tensors]

    def on_run_start(self, run: Run) -> None:
        _after_update(run, self._note)

    def _note(self) -> None:
        self._updated = time.perf_counter()

    def on_evaluate_end(self, run: Run) -> None:
        begin = time.perf_counter()
        loss = self._loss(run.model)
        self.seen.append((begin - self._updated, time.perf_counter() - begin))
        if abs(loss / run.metrics["eval/loss"] - 1) > 1e-4:
            raise RuntimeError(f"the bare loop's loss is {loss}, the run's {run.metrics['eval/loss']}")

    def _loss(self, model: nn.Module) -> float:
        total, samples = torch.zeros(()), 0
        model.eval()
        with torch.no_grad():
            for inputs, targets in zip(*self._batches, strict=True):
                total += cross_entropy(model(inputs), targets, reduction="sum")
                samples += len(targets)
        model.train()
        return total.item() / samples


@register("hook", "empty")
class Empty(Hook):
    """Is called after every step, and does nothing."""

    ranks = "all"

    def on_step_end(self, run: Run) -> None:
        return None


def _after_update(run: Run, call: Callable[[], None]) -> None:
    run.optimizer.register_step_post_hook(lambda *_: call())
