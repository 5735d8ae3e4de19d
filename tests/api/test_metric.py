"""The base of metrics: declared states, their defaults and their replacement."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pipeline.api.metric import Metric, State, sum_dtype
from pipeline.api.outcome import Outcome

CPU = torch.device("cpu")


class Mean(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.total: Tensor = self.add_state("total", torch.tensor(0.0, dtype=torch.float64), "sum")
        self.count: Tensor = self.add_state("count", torch.tensor(0), "sum")
        self.seen: Tensor = self.add_state("seen", torch.empty(0), "cat")

    def update(self, outcome: Outcome) -> None:
        self.total += outcome.predictions.sum()  # in place: the default must not move with it
        self.count = self.count + outcome.predictions.numel()
        self.seen = torch.cat([self.seen, outcome.predictions])

    def compute(self) -> Tensor:
        return self.total / self.count


def outcome(*values: float) -> Outcome:
    return Outcome(loss=torch.tensor(0.0), predictions=torch.tensor(values))


def test_states_accumulate_over_batches():
    metric = Mean()
    metric.update(outcome(1.0, 2.0))
    metric.update(outcome(6.0))
    assert metric.compute() == 3.0
    states = metric.states()
    assert {name: state.reduce for name, state in states.items()} == {
        "total": "sum",
        "count": "sum",
        "seen": "cat",
    }
    assert states["seen"].value.tolist() == [1.0, 2.0, 6.0]
    assert isinstance(states["count"], State)


def test_reset_brings_the_defaults_back_however_often():
    metric = Mean()
    for _ in range(2):
        metric.update(outcome(5.0))
        metric.reset(CPU)
        assert [state.value.tolist() for state in metric.states().values()] == [0.0, 0, []]
    metric.update(outcome(4.0))
    assert metric.compute() == 4.0


def test_joined_states_replace_those_of_this_rank():
    metric = Mean()
    metric.update(outcome(5.0))
    metric.load_states({"total": torch.tensor(9.0), "count": torch.tensor(3)})
    assert metric.compute() == 3.0


def test_two_metrics_share_nothing():
    first, second = Mean(), Mean()
    first.update(outcome(1.0))
    assert second.states()["count"].value == 0


@pytest.mark.parametrize(("method", "arguments"), [("update", (outcome(1.0),)), ("compute", ())])
def test_what_a_subclass_forgot_is_named(method, arguments):
    class Forgetful(Metric):
        pass

    with pytest.raises(NotImplementedError, match=rf"Forgetful does not define {method}\("):
        getattr(Forgetful(), method)(*arguments)


def test_fractions_are_added_in_the_widest_type_of_the_device():
    assert sum_dtype(CPU) == torch.float64
    assert sum_dtype(torch.device("mps")) == torch.float32
