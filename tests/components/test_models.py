"""The built-in models: shapes, what they refuse, and that no sample or future token leaks."""

from __future__ import annotations

import pytest
import torch

from pipeline.components.models.char_transformer import CharTransformer
from pipeline.components.models.convnet import ConvNet
from pipeline.components.models.mlp import MLP


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "tanh"])
def test_mlp_flattens_its_inputs(activation: str) -> None:
    model = MLP(64, [16, 8], 10, activation=activation, dropout=0.1).eval()
    images = torch.rand(5, 1, 8, 8)
    assert model(images).shape == (5, 10)
    assert torch.equal(model(images), model(images.flatten(1)))
    assert model(images[:0]).shape == (0, 10)


def test_mlp_without_hidden_layers_is_linear() -> None:
    model = MLP(3, [], 2)
    assert [tuple(p.shape) for p in model.parameters()] == [(2, 3), (2,)]


def test_mlp_drops_only_in_training() -> None:
    model, inputs = MLP(8, [32], 4, dropout=0.5), torch.rand(6, 8)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


def test_convnet_takes_images_with_and_without_channel() -> None:
    model = ConvNet(1, [8, 16], 10, groups=4)
    images = torch.rand(3, 8, 8)
    assert model(images).shape == (3, 10)
    assert torch.equal(model(images), model(images.unsqueeze(1)))


def test_convnet_samples_do_not_see_each_other() -> None:
    model, images = ConvNet(3, [8], 2).double(), torch.rand(4, 3, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(model(images)[:1], model(images[:1]), rtol=0, atol=1e-12)


def test_convnet_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"multiples of groups = 8, got \[12\]"):
        ConvNet(1, [12], 10)
    with pytest.raises(ValueError, match=r"expected images \(N, 3, H, W\).*got \(2, 1, 8, 8\)"):
        ConvNet(3, [8], 10)(torch.rand(2, 8, 8))


def test_transformer_sees_no_later_token() -> None:
    model = CharTransformer(11, context=6, width=16, depth=2, heads=2).double().eval()
    tokens = torch.randint(11, (2, 6))
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    before, after = model(tokens), model(changed)
    assert before.shape == (2, 6, 11)
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=0, atol=1e-12)
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_transformer_starts_near_the_uniform_guess() -> None:
    model, tokens = CharTransformer(50, context=8, width=32), torch.randint(50, (4, 8))
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), torch.randint(50, (32,)))
    assert loss.item() == pytest.approx(torch.tensor(50.0).log().item(), abs=0.2)


def test_transformer_ties_its_weights_on_demand() -> None:
    tied = CharTransformer(11, width=8, heads=2, depth=1)
    free = CharTransformer(11, width=8, heads=2, depth=1, tie_weights=False)
    assert tied.head.weight is tied.tokens.weight
    assert sum(p.numel() for p in free.parameters()) - sum(p.numel() for p in tied.parameters()) == 88


def test_transformer_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="multiple of heads = 3, got 8"):
        CharTransformer(11, width=8, heads=3)
    with pytest.raises(ValueError, match=r"T up to context = 4, got \(1, 5\)"):
        CharTransformer(11, context=4, width=8)(torch.zeros(1, 5, dtype=torch.int64))
