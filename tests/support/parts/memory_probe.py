"""A hook that measures the memory of one step of a real run, as torch.profiler counts it."""

from __future__ import annotations

import json

import torch
from torch.profiler import ProfilerActivity, profile

from pipeline import Hook, Run, register


@register("hook", "memory_probe")
class MemoryProbe(Hook):
    """Writes to memory.json the most bytes that a step allocates beside what stays from step to step."""

    ranks = "main"

    def __init__(self, step: int) -> None:
        self.step = step
        self.profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)

    def on_step_end(self, run: Run) -> None:
        if run.step == self.step - 1:
            self.profile.start()
        if run.step == self.step:
            self.profile.stop()
            states = run.optimizer.state.values()
            state = sum(v.nbytes for s in states for v in s.values() if isinstance(v, torch.Tensor))
            weights = sum(p.nbytes for p in run.model.parameters())
            told = {"weights": weights, "optimizer": state, "step": self._most()}
            (run.folder / "memory.json").write_text(json.dumps(told))

    def _most(self) -> int:
        """From the least of the running sum, where the last step's batch is gone, to the most."""
        results = self.profile.profiler.kineto_results.events()
        events = sorted((e.start_ns(), e.nbytes()) for e in results if e.name() == "[memory]")
        held = least = most = 0
        for _, size in events:
            held += size
            least, most = min(least, held), max(most, held)
        return most - least
