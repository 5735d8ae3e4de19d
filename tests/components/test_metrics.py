"""The built-in metrics: values, and that joined halves equal the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor

from pipeline.api.metric import Metric
from pipeline.api.outcome import Outcome
from pipeline.components.metrics.accuracy import Accuracy
from pipeline.components.metrics.mean_absolute_error import MeanAbsoluteError
from pipeline.components.metrics.perplexity import Perplexity
from pipeline.components.metrics.torchmetrics import TorchMetrics
from pipeline.errors import ComponentError

CPU = torch.device("cpu")
JOIN: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "sum": lambda parts: torch.stack(list(parts)).sum(0),
    "max": lambda parts: torch.stack(list(parts)).amax(0),
    "min": lambda parts: torch.stack(list(parts)).amin(0),
    "cat": lambda parts: torch.cat(list(parts)),
}


def outcomes(classes: int = 5, sizes: Sequence[int] = (8, 8, 3)) -> list[Outcome]:
    torch.manual_seed(0)
    return [
        Outcome(torch.rand(()) * n, None, torch.randn(n, classes), torch.randint(classes, (n,)))
        for n in sizes
    ]


@torch.no_grad()
def value_over_ranks(make: Callable[[], Metric], shares: Sequence[Sequence[Outcome]]) -> float:
    """The metric as the engine computes it, each share on a rank of its own."""
    metrics = [make() for _ in shares]
    for metric, share in zip(metrics, shares, strict=True):
        metric.reset(CPU)
        for outcome in share:
            metric.update(outcome)
    states = [metric.states() for metric in metrics]
    joined = {
        name: JOIN[str(state.reduce)]([by_rank[name].value for by_rank in states])
        for name, state in states[0].items()
    }
    metrics[-1].load_states(joined)
    return float(metrics[-1].compute())


def value(make: Callable[[], Metric], share: Sequence[Outcome]) -> float:
    return value_over_ranks(make, [share])


def test_accuracy_counts_hits_among_the_highest() -> None:
    logits = torch.tensor([[0.1, 0.5, 0.4], [0.9, 0.0, 0.1], [0.2, 0.3, 0.5], [0.4, 0.3, 0.3]])
    outcome = Outcome(torch.tensor(0.0), None, logits, torch.tensor([1, 1, 1, 0]))
    assert value(Accuracy, [outcome]) == 0.5
    assert value(lambda: Accuracy(k=2), [outcome]) == 0.75
    assert value(lambda: Accuracy(k=3), [outcome]) == 1
    assert value(lambda: Accuracy(ignore_index=1), [outcome]) == 1
    assert math.isnan(value(Accuracy, []))
    sequences = Outcome(torch.tensor(0.0), None, logits.view(2, 2, 3), torch.tensor([[1, 1], [1, 0]]))
    assert value(Accuracy, [sequences]) == 0.5


def test_accuracy_counts_are_integers() -> None:
    assert all(state.value.dtype == torch.int64 for state in Accuracy().states().values())


def test_accuracy_refuses_what_does_not_fit() -> None:
    outcome = Outcome(torch.tensor(0.0), None, torch.randn(4, 3), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"k = 5 expected.*got \(4, 3\) and \(4,\)"):
        value(lambda: Accuracy(k=5), [outcome])
    with pytest.raises(ComponentError, match=r"accuracy needs predictions and targets.*no predictions"):
        value(Accuracy, [Outcome(torch.tensor(0.0))])


def test_mean_absolute_error_is_over_all_numbers() -> None:
    parts = [torch.randn(n, 2, 2, 3) for n in (5, 1)]
    share = [Outcome(torch.tensor(0.0), None, part[:, 0], part[:, 1]) for part in parts]
    whole = torch.cat(parts).double()
    expected = (whole[:, 0] - whole[:, 1]).abs().mean().item()
    assert value(MeanAbsoluteError, share) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match=r"one shape, got \(4, 1\) and \(4,\)"):
        value(MeanAbsoluteError, [Outcome(torch.tensor(0.0), None, torch.rand(4, 1), torch.rand(4))])


def test_perplexity_divides_by_the_weights_or_the_samples() -> None:
    weighted = [Outcome(torch.tensor(6.0), torch.tensor(3)), Outcome(torch.tensor(2.0), 5)]
    assert value(Perplexity, weighted) == pytest.approx(math.e)
    counted = [Outcome(torch.tensor(6.0), None, torch.rand(4, 2), torch.zeros(4))]
    assert value(Perplexity, counted) == pytest.approx(math.exp(1.5))


@pytest.mark.parametrize("make", [Accuracy, lambda: Accuracy(k=3), Perplexity])
def test_joined_shares_equal_the_whole(make: Callable[[], Metric]) -> None:
    share = outcomes()
    assert value_over_ranks(make, [share[:1], [], share[1:]]) == pytest.approx(value(make, share), rel=1e-15)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("MulticlassF1Score", {"num_classes": 5, "average": "macro"}),  # sum
        ("MulticlassAUROC", {"num_classes": 5}),  # cat, of lists
        ("MulticlassAUROC", {"num_classes": 5, "thresholds": 20}),  # sum, with thresholds beside
    ],
)
def test_torchmetrics_over_ranks_equal_torchmetrics_alone(name: str, arguments: dict[str, Any]) -> None:
    share = outcomes()
    theirs = getattr(torchmetrics.classification, name)(**arguments)
    for outcome in share:
        theirs.update(outcome.predictions, outcome.targets)
    expected = float(theirs.compute())

    def make() -> Metric:
        return TorchMetrics(name, arguments)

    assert value(make, share) == pytest.approx(expected, rel=1e-6)
    for shares in ([share[:1], share[1:]], [share, []], [[], share]):  # a rank may have no samples
        assert value_over_ranks(make, shares) == pytest.approx(expected, rel=1e-6)


def test_torchmetrics_extremes_and_feed() -> None:
    share = outcomes()

    def make() -> Metric:
        return TorchMetrics("MaxMetric", feed=["loss"])

    expected = max(outcome.loss.item() for outcome in share)
    assert value_over_ranks(make, [share[:2], share[2:]]) == pytest.approx(expected)


def test_torchmetrics_start_anew_after_a_reset() -> None:
    metric, share = TorchMetrics("MulticlassAUROC", {"num_classes": 5}), outcomes()
    states, values = [], []
    for outcome in share[:2]:
        metric.reset(CPU)
        metric.update(outcome)
        states.append({name: state.value for name, state in metric.states().items()})
        values.append(float(metric.compute()))
    alone = [value(lambda: TorchMetrics("MulticlassAUROC", {"num_classes": 5}), [part]) for part in share[:2]]
    assert values == alone
    assert values[0] != values[1]
    metric.load_states(states[0])  # without a reset: what was computed before is forgotten
    assert float(metric.compute()) == values[0]


def test_torchmetrics_declare_what_cannot_be_joined() -> None:
    metric = TorchMetrics("PearsonCorrCoef")
    metric.reset(CPU)
    states = metric.states()
    assert {name for name, state in states.items() if state.reduce is None} >= {"mean_x", "corr_xy"}
    x = torch.randn(9)
    outcome = Outcome(torch.tensor(0.0), None, x, 2 * x)
    metric.update(outcome)  # with one process it works
    metric.load_states({name: state.value for name, state in metric.states().items()})
    assert float(metric.compute()) == pytest.approx(1)


def test_torchmetrics_refuse_clearly() -> None:
    with pytest.raises(
        ComponentError, match="no metric 'MulticlasF1Score'; did you mean 'MulticlassF1Score'"
    ):
        TorchMetrics("MulticlasF1Score")
    with pytest.raises(ComponentError, match="RunningMean holds other metrics"):
        TorchMetrics("RunningMean")
    per_class = TorchMetrics("MulticlassF1Score", {"num_classes": 5, "average": "none"})
    per_class.update(outcomes()[0])
    with pytest.raises(ComponentError, match=r"MulticlassF1Score computed shape \(5,\); expected a scalar"):
        per_class.compute()


def test_torchmetrics_absent_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchmetrics", None)
    with pytest.raises(ComponentError, match=r"pip install 'pipeline-ddp\[torchmetrics\]'"):
        TorchMetrics("MulticlassF1Score")
