"""The built-in objectives against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.api.outcome import Outcome
from pipeline.components.objectives.cross_entropy import CrossEntropy
from pipeline.components.objectives.language_modelling import LanguageModelling
from pipeline.components.objectives.model_loss import ModelLoss
from pipeline.components.objectives.mse import MSE


def mean(outcome: Outcome, samples: int) -> float:
    """What the engine makes of an outcome."""
    return (outcome.loss / (samples if outcome.weight is None else outcome.weight)).item()


@pytest.mark.parametrize("samples", [1, 3, 24, 49, 64])
def test_cross_entropy_has_the_bits_of_the_mean_loss(samples: int) -> None:
    torch.manual_seed(samples)
    inputs, targets = torch.randn(samples, 6), torch.randint(5, (samples,))
    model = nn.Linear(6, 5)
    F.cross_entropy(model(inputs), targets).backward()
    expected = model.weight.grad.clone()
    model.zero_grad()
    outcome = CrossEntropy()(model, (inputs, targets))
    assert outcome.weight is None
    (outcome.loss * (1 / samples)).backward()
    assert torch.equal(model.weight.grad, expected)


def test_cross_entropy_smooths_and_ignores_as_torch_does() -> None:
    logits, targets = torch.randn(8, 5), torch.tensor([0, 1, -1, 3, -1, 2, 4, 0])
    outcome = CrossEntropy(label_smoothing=0.2, ignore_index=-1)(nn.Identity(), (logits, targets))
    assert isinstance(outcome.weight, Tensor)
    assert outcome.weight.item() == 6
    expected = F.cross_entropy(logits, targets, label_smoothing=0.2, ignore_index=-1)
    assert mean(outcome, 8) == pytest.approx(expected.item(), rel=1e-6)


def test_cross_entropy_of_sequences_and_images() -> None:
    logits, targets = torch.randn(2, 7, 5), torch.randint(5, (2, 7))
    expected = F.cross_entropy(logits.transpose(1, 2), targets).item()
    last = CrossEntropy()(nn.Identity(), (logits, targets))
    assert last.weight == 14
    assert mean(last, 2) == pytest.approx(expected, rel=1e-6)
    second = CrossEntropy(class_dim=1)(nn.Identity(), (logits.transpose(1, 2), targets))
    assert mean(second, 2) == pytest.approx(expected, rel=1e-6)
    assert torch.equal(second.predictions, logits)


def test_cross_entropy_counts_every_label_unless_told() -> None:
    with pytest.raises(IndexError, match="-100"):  # torch's own default ignores it silently
        CrossEntropy()(nn.Identity(), (torch.randn(2, 5), torch.tensor([1, -100])))
    with pytest.raises(ValueError, match=r"logits \(2, 5\).*targets \(3,\)"):
        CrossEntropy()(nn.Identity(), (torch.randn(2, 5), torch.tensor([1, 0, 0])))


def test_language_modelling_weighs_by_counted_tokens() -> None:
    logits, targets = torch.randn(2, 6, 9), torch.randint(9, (2, 6))
    targets[0, 3:] = -100
    outcome = LanguageModelling()(nn.Identity(), (logits, targets))
    assert isinstance(outcome.weight, Tensor)
    assert outcome.weight.item() == 9
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    assert mean(outcome, 2) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match=r"expected logits \(N, T, V\)"):
        LanguageModelling()(nn.Identity(), (logits[0], targets[0]))


def test_mse_is_a_mean_over_features_and_a_sum_over_samples() -> None:
    predictions, targets = torch.randn(6, 2, 3), torch.randn(6, 2, 3)
    outcome = MSE()(nn.Identity(), (predictions, targets))
    assert mean(outcome, 6) == pytest.approx(F.mse_loss(predictions, targets).item(), rel=1e-6)
    assert MSE()(nn.Identity(), (predictions[:0], targets[:0])).loss.item() == 0
    with pytest.raises(ValueError, match=r"one shape, got \(6, 1\) and \(6,\)"):
        MSE()(nn.Identity(), (torch.randn(6, 1), torch.randn(6)))


@pytest.mark.parametrize("objective", [CrossEntropy, LanguageModelling, MSE])
def test_batches_may_be_mappings(objective: Any) -> None:
    logits, targets = torch.randn(2, 4, 5), torch.randint(5, (2, 4))
    if objective is MSE:
        targets = torch.randn(2, 4, 5)
    pair = objective()(nn.Identity(), (logits, targets))
    named = objective(inputs="x", targets="y")(nn.Identity(), {"x": logits, "y": targets, "id": 3})
    assert torch.equal(pair.loss, named.loss)
    with pytest.raises(ValueError, match=r"keys \['x'\], not 'inputs'"):
        objective()(nn.Identity(), {"x": logits})
    with pytest.raises(ValueError, match=r"expected a batch \(inputs, targets\).*got tuple of 3"):
        objective()(nn.Identity(), (logits, targets, targets))
    with pytest.raises(ValueError, match="got Tensor"):
        objective()(nn.Identity(), logits)


class _OwnLoss(nn.Module):
    def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
        loss = (x - 1).pow(2).mean()
        return loss if labels is None else {"loss": loss, "logits": x}


def test_model_loss_passes_batches_on() -> None:
    x = torch.randn(5, 2)
    expected = 5 * (x - 1).pow(2).mean()
    alone, pair = ModelLoss()(_OwnLoss(), x), ModelLoss()(_OwnLoss(), (x, torch.zeros(5)))
    named = ModelLoss()(_OwnLoss(), {"x": x, "labels": torch.ones(5)})
    for outcome in (alone, pair, named):
        assert outcome.weight is None
        torch.testing.assert_close(outcome.loss, expected)
    assert torch.equal(named.predictions, x)
    assert torch.equal(named.targets, torch.ones(5))
    torch.testing.assert_close(ModelLoss(reduction="sum")(_OwnLoss(), x).loss, expected / 5)


def test_model_loss_refuses_what_is_no_loss() -> None:
    with pytest.raises(ValueError, match=r"a tensor of shape \(5, 2\)"):
        ModelLoss()(nn.Identity(), torch.randn(5, 2))
    with pytest.raises(ValueError, match="got NoneType"):
        ModelLoss()(lambda _: {"logits": 1}, torch.randn(5, 2))
