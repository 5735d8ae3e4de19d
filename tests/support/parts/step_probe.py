"""What a step does beyond its mathematics: values read from tensors, calls of hooks and of a dataset."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline import Hook, register


class _Reads(TorchDispatchMode):
    """Counts the values that Python reads from tensors: on a device each would wait for all work on it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._local_scalar_dense.default:
            self.count += 1
        return function(*args, **(kwargs or {}))


@register("hook", "reads")
class Reads(Hook):
    """Writes reads-RANK.json: for each step the values read since the end of the one before."""

    ranks = "all"

    def __init__(self, reads_itself: bool = False) -> None:
        self._reads_itself = reads_itself
        self._by_step: list[int] = []
        self._mode = _Reads()

    def on_run_start(self, run):
        self._mode.__enter__()

    def on_step_end(self, run):
        if self._reads_itself:
            torch.zeros(()).item()
        self._by_step.append(self._mode.count)
        self._mode.count = 0

    def on_run_end(self, run):
        self._mode.__exit__(None, None, None)
        (run.folder / f"reads-{run.world.rank}.json").write_text(json.dumps(self._by_step))


_CALLS: Counter[str] = Counter()


def _count_inherited(event):
    def method(self, run, *arguments):
        _CALLS[event] += 1

    setattr(Hook, event, method)


@register("hook", "rare")
class Rare(Hook):
    """Wants the end of the run alone; writes rare-RANK.json: the calls of methods it does not override."""

    ranks = "all"

    def __init__(self) -> None:
        for event in ("on_run_start", "on_epoch_start", "on_step_end", "on_evaluate_end", "on_epoch_end"):
            _count_inherited(event)

    def on_run_end(self, run):
        (run.folder / f"rare-{run.world.rank}.json").write_text(json.dumps(_CALLS))


@register("dataset", "batched_rows")
class BatchedRows:
    """Rows (8,) with the class 0, read by batch; every call is a line of the file ``calls``."""

    def __init__(self, length: int, calls: Path) -> None:
        self._rows = torch.randn(length, 8, generator=torch.Generator().manual_seed(0))
        self._calls = calls

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):
        self._note("one")
        return self._rows[index], 0

    def __getitems__(self, indices):
        self._note(str(len(indices)))
        return self._rows[indices], torch.zeros(len(indices), dtype=torch.int64)

    def collate_fn(self, batch):
        return batch

    def _note(self, call):
        with self._calls.open("a") as file:
            file.write(call + "\n")
