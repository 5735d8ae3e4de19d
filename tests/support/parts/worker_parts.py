"""Datasets that are hard on a loader's workers; a local file, as a user would have one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.utils.data import default_collate, get_worker_info

from pipeline import register


class TwoArguments(Exception):
    def __init__(self, what, where):
        super().__init__(f"{what} broke in {where}")


class Forgetful(Exception):
    def __init__(self, code):
        super().__init__("no more than this" if isinstance(code, str) else f"the code was {code}")


class Unpicklable:
    def __reduce__(self):
        raise ValueError("this is not for pickling")


def _by_two(inputs):
    return 2 * inputs


def _in_double(samples):
    inputs, labels = default_collate(samples)
    return inputs.double().float(), labels


TRANSFORMS = {"by_two": _by_two}
COLLATES = {"in_double": _in_double}


@register("dataset", "looks_up")
class LooksUp:
    """Points, transformed and collated by what its names stand for in this file."""

    def __init__(self, length: int, transform: str, collate: str) -> None:
        self.inputs = torch.randn(length, 8, generator=torch.Generator().manual_seed(length))
        self.transform = transform
        self.collate_fn = COLLATES[collate]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        assert get_worker_info() is not None
        return TRANSFORMS[self.transform](self.inputs[index]), index % 3


@register("dataset", "in_worker")
class InWorker:
    """Points of which one, or the batch with it, is at fault in a worker; notes the workers' pids."""

    def __init__(
        self,
        length: int,
        fault: Literal["", "lambda", "reduce", "gradient", "two", "forgetful", "local", "exit", "stop"] = "",
        bad: int = -1,
        pids: Path | None = None,
        sleep: float = 0.0,
        payload: int = 0,
    ) -> None:
        self.inputs = torch.randn(length, 8, generator=torch.Generator().manual_seed(length))
        self.fault, self.bad, self.pids, self.sleep, self.payload = fault, bad, pids, sleep, payload

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        if get_worker_info() is not None:
            if self.pids is not None:
                (self.pids / str(os.getpid())).touch()
            time.sleep(self.sleep)
            if index == self.bad:
                self._fail()
        return self.inputs[index], index % 3, index

    def _fail(self):
        class Local(Exception):
            pass

        error = {
            "two": TwoArguments("the pen", "the middle"),
            "forgetful": Forgetful(77),
            "local": Local("a class of no module"),
            "exit": SystemExit("leaving early"),
            "stop": StopIteration("out of samples"),
        }.get(self.fault)
        if error is not None:
            raise error

    def collate_fn(self, samples):
        inputs, labels, indices = zip(*samples, strict=True)
        batch = default_collate(list(zip(inputs, labels, strict=True)))
        if get_worker_info() is not None and self.bad in indices:
            batch += {
                "lambda": [lambda: None],
                "reduce": [Unpicklable()],
                "gradient": [torch.ones(2, requires_grad=True) * 2],
            }.get(self.fault, [])
        if self.payload:
            return {
                "inputs": batch[0],
                "targets": batch[1],
                "payload": np.zeros(self.payload, dtype=np.uint8),
            }
        return batch


@register("dataset", "unsendable")
class Unsendable(InWorker):
    """Has an attribute that no spawned worker can be sent."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.transforms = {"crop": lambda inputs: inputs}


@register("dataset", "one_thread")
class OneThread(InWorker):
    """Wants to be read in a worker that has one thread."""

    def __getitem__(self, index):
        threads = torch.get_num_threads()
        if get_worker_info() is None or threads != 1:
            raise ValueError(f"read with {threads} threads")
        return super().__getitem__(index)
