"""A multi-layer perceptron."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Lt
from torch import Tensor, nn

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


class MLP(nn.Module):
    """Fully connected layers with an activation between them.

    Takes inputs (N, ...), flattened to (N, in_features); gives (N, out_features), not activated.

    Args:
        in_features: numbers per sample.
        hidden: widths of the hidden layers; an empty list makes the model linear.
        out_features: outputs per sample, as classes or regression targets.
        activation: what stands behind each hidden layer.
        dropout: probability with which a hidden unit is dropped in training.
    """

    def __init__(
        self,
        in_features: Annotated[int, Ge(1)],
        hidden: list[Annotated[int, Ge(1)]],
        out_features: Annotated[int, Ge(1)],
        activation: Literal["relu", "gelu", "silu", "tanh"] = "relu",
        dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = in_features
        for next_width in hidden:
            layers += [nn.Linear(width, next_width), _ACTIVATIONS[activation]()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = next_width
        self.layers = nn.Sequential(*layers, nn.Linear(width, out_features))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs.flatten(1))
        return outputs
