"""LCH-04: what a spawned worker could not be sent is named before training, and nothing else is."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.engine.sendable import require_sendable
from pipeline.errors import ComponentError


class Samples:
    """A dataset with anything as an attribute."""

    def __init__(self, held: Any) -> None:
        self.held = held


class WithCollate(Samples):
    collate_fn = staticmethod(lambda samples: samples)


def local() -> Any:
    class Local:
        pass

    return Local()


def cyclic() -> Any:
    inner = Samples(None)
    inner.held = [inner, lambda: 0]
    return inner


@pytest.mark.parametrize(
    ("dataset", "place"),
    [
        (Samples(lambda x: x), "Samples.held"),
        (Samples({"crop": [abs, lambda x: x]}), "Samples.held['crop'][1]"),
        (Samples(Samples(local())), "Samples.held.held"),
        (Samples(cyclic()), "Samples.held.held[1]"),
        (Samples(threading.Lock()), "Samples.held"),
        (Samples(np.array([print, lambda: 0], dtype=object)), "Samples.held"),
        (WithCollate(None), "collate_fn"),
        (local(), "local.<locals>.Local"),
    ],
)
def test_what_cannot_be_sent_is_named(dataset: Any, place: str) -> None:
    with pytest.raises(ComponentError) as raised:
        require_sendable(dataset, "dataset 'x' (dataset.eval, c.toml:3:1)", "spawn")
    assert str(raised.value).startswith(
        f"dataset 'x' (dataset.eval, c.toml:3:1) cannot be sent to a worker process: {place} ("
    )
    assert 'loader.start_method = "fork"' in str(raised.value)


@pytest.mark.parametrize(
    "held",
    [
        torch.zeros(3),
        torch.nn.Linear(2, 2),
        np.zeros(3),
        multiprocessing.get_context("spawn").Lock(),
        [abs, Samples, {"a": frozenset({1})}],
    ],
)
def test_what_can_be_sent_is_let_pass(held: Any) -> None:
    require_sendable(Samples(held), "dataset", "spawn")


def test_nothing_large_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors and arrays are taken at their word."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("copied")

    monkeypatch.setattr(torch.Tensor, "__reduce_ex__", refuse)
    require_sendable(Samples([torch.zeros(3), np.zeros(3)]), "dataset", "spawn")
