"""The built-in orders: pure functions of (seed, epoch, position)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DistributedSampler

from pipeline import EpochSampler
from pipeline.api.order import Order
from pipeline.components.samplers.sequential import Sequential
from pipeline.components.samplers.shuffle import Shuffle
from pipeline.components.samplers.torch_order import TorchOrder
from pipeline.components.samplers.weighted import Weighted

DATASET = range(101)


@pytest.fixture(params=["sequential", "shuffle", "torch", "weighted"])
def order(request: pytest.FixtureRequest) -> Any:
    return {
        "sequential": lambda: Sequential(DATASET),
        "shuffle": lambda: Shuffle(DATASET, seed=5),
        "torch": lambda: TorchOrder(DATASET, seed=5),
        "weighted": lambda: Weighted(DATASET, seed=5, weights=[1.0] * 101),
    }[request.param]()


def test_any_window_is_a_slice_of_the_epoch(order: Order) -> None:
    assert isinstance(order, Order)
    assert order.samples_per_epoch == 101
    whole = order.indices(3, 0, 101)
    assert whole.dtype == np.int64
    for start in range(0, 101, 7):
        other = order.indices(4, 0, 101)  # another epoch in between changes nothing
        assert np.array_equal(other, whole) == isinstance(order, Sequential)
        stop = min(start + 13, 101)
        assert np.array_equal(order.indices(3, start, stop), whole[start:stop])
    assert order.indices(3, 9, 9).shape == (0,)


@pytest.mark.parametrize("kind", [Shuffle, TorchOrder])
def test_shuffles_are_permutations_that_change(kind: Any) -> None:
    orders = [kind(DATASET, seed=seed).indices(epoch, 0, 101) for seed, epoch in ((5, 0), (5, 1), (7, 0))]
    assert all(sorted(order) == list(DATASET) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("length", [101, 20_000])  # below and above where a permutation holds a table
def test_shuffle_is_the_order_of_the_epoch_sampler(length: int) -> None:
    sampler = EpochSampler(length, seed=5, rank=0, world_size=1, global_batch_size=37)
    sampler.set_epoch(2)
    expected = [index for batch in sampler for index in batch]
    assert Shuffle(range(length), seed=5).indices(2, 0, length).tolist() == expected


def test_torch_order_is_that_of_distributed_sampler() -> None:
    theirs = DistributedSampler(DATASET, num_replicas=1, rank=0, seed=5)
    theirs.set_epoch(3)
    assert TorchOrder(DATASET, seed=5).indices(3, 0, 101).tolist() == list(theirs)


def test_weighted_draws_by_weight() -> None:
    order = Weighted(range(4), seed=5, weights=[0.0, 1.0, 3.0, 0.0], samples_per_epoch=40_000)
    assert order.samples_per_epoch == 40_000
    counts = np.bincount(order.indices(0, 0, 40_000), minlength=4)
    assert counts[0] == counts[3] == 0
    assert counts[2] / 40_000 == pytest.approx(0.75, abs=0.01)  # 4.6 standard deviations
    assert not np.array_equal(order.indices(0, 0, 100), order.indices(1, 0, 100))


@pytest.mark.parametrize("unit", [1.7e308, 1.0, 5e-324])
def test_weighted_takes_weights_of_any_size(unit: float) -> None:
    """Weights whose sum would overflow, and the smallest that there are."""
    order = Weighted(range(4), seed=5, weights=[0.0, unit, unit, unit], samples_per_epoch=3000)
    counts = np.bincount(order.indices(0, 0, 3000), minlength=4)
    assert counts[0] == 0
    assert counts[1:] == pytest.approx(1000, abs=130)  # 5 standard deviations


def test_weighted_shares_are_half_open(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Weighted(range(4), seed=5, weights=[0.0, 0.1, 0.3, 0.0])
    highest = 1 - 2.0**-53
    monkeypatch.setattr(order, "_uniform", lambda *_: np.array([0.0, 0.2, 0.25, highest]))
    assert order.indices(0, 0, 4).tolist() == [1, 1, 2, 2]  # never one of weight 0


def test_weighted_reads_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "weights.npy", np.array([0.0, 2.0, 0.0], dtype=np.float32))
    assert set(Weighted(range(3), seed=5, weights=tmp_path / "weights.npy").indices(0, 0, 3)) == {1}
    with pytest.raises(FileNotFoundError, match=r"absent\.npy; set the sampler's weights"):
        Weighted(range(3), seed=5, weights=tmp_path / "absent.npy")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"each of 3 samples, got weights of shape \(2,\)"),
        ([1.0, -2.0, 1.0], r"got -2.0 for sample 1"),
        ([1.0, 1.0, float("nan")], r"got nan for sample 2"),
        ([0.0, 0.0, 0.0], "only zeros"),
    ],
)
def test_weighted_refuses_weights_that_are_none(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Weighted(range(3), seed=5, weights=weights)
