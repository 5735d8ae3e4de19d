"""Models of a weight or two, whose gradients are known by hand; a local file."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.utils.data import IterableDataset

from pipeline import Hook, Metric, Outcome, register


@register("dataset", "listed")
class Listed:
    """Some numbers, each with its index."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int):
        return torch.tensor(self.values[index], dtype=torch.float64), index


@register("dataset", "unequal")
class Unequal(IterableDataset):
    """The same, in shards of which the last has one number and the first all others."""

    def __init__(self, values: list[float]) -> None:
        self.samples = list(enumerate(values))

    def shard(self, index: int, count: int):
        cuts = [0, *range(len(self.samples) - count + 1, len(self.samples) + 1)]
        for number, value in self.samples[cuts[index] : cuts[index + 1]]:
            yield torch.tensor(value, dtype=torch.float64), number

    def __iter__(self):
        return self.shard(0, 1)


@register("model", "one_weight")
class OneWeight(nn.Module):
    """weight * inputs."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight, dtype=torch.float64))

    def forward(self, inputs):
        return self.weight * inputs


@register("objective", "squares")
class Squares:
    """The sum of squares of what the model gives."""

    def __call__(self, model, batch):
        values, _ = batch
        outputs = model(values)
        return Outcome(outputs.square().sum(), None, outputs, values)


@register("objective", "the_values")
class TheValues:
    """A loss that is the values themselves, whatever the weight; by a weight of its own if asked."""

    def __init__(self, counts: bool = False) -> None:
        self.counts = counts

    def __call__(self, model, batch):
        values, indices = batch
        loss = values.sum() + 0.0 * model(values).sum()
        return Outcome(loss, torch.tensor(len(values)) if self.counts else None, values, indices)


@register("dataset", "tokens_of")
class TokensOf:
    """Sequences of 9 tokens of 5, sample i with ``counted[i]`` targets and the rest -100."""

    def __init__(self, counted: list[int]) -> None:
        generator = torch.Generator().manual_seed(3)
        self.tokens = torch.randint(5, (len(counted), 9), generator=generator)
        self.targets = torch.randint(5, (len(counted), 9), generator=generator)
        for number, count in enumerate(counted):
            self.targets[number, count:] = -100

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int):
        return self.tokens[index], self.targets[index]


@register("model", "linear_of_tokens")
class LinearOfTokens(nn.Module):
    """Logits (N, T, 5) of tokens (N, T): a linear layer over one-hot vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5).double()

    def forward(self, tokens):
        return self.layer(nn.functional.one_hot(tokens, 5).double())


@register("dataset", "steep")
class Steep:
    """A vector (2,) of norm 10 at every index but one, where it is infinite."""

    def __init__(self, length: int, infinite: int = -1) -> None:
        self.length = length
        self.infinite = infinite

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        return torch.tensor([6.0, math.inf if index == self.infinite else 8.0])


@register("model", "slope")
class Slope(nn.Module):
    """The product of the inputs (N, 2) with two weights, 1 at first."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(2))

    def forward(self, inputs):
        return (inputs * self.weights).sum(1)


@register("objective", "height")
class Height:
    """The sum of what the model gives, so that the gradient is the sum of the inputs."""

    def __call__(self, model, batch):
        heights = model(batch)
        return Outcome(heights.sum(), None, heights, heights)


@register("hook", "updates")
class Updates(Hook):
    """Logs the weights after every step."""

    def on_step_end(self, run):
        for number, weight in enumerate(run.model.weights.detach().tolist()):
            run.log(f"weight/{number}", weight)


@register("dataset", "judged")
class Judged:
    """Inputs (2,) that are the logits of a fixed prediction, with labels."""

    def __init__(self, predicted: list[int], labels: list[int]) -> None:
        self.logits = torch.tensor([[1.0 - 2 * p, 2.0 * p - 0.5] for p in predicted])
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        return self.logits[index], self.labels[index]


@register("model", "unchanged")
class Unchanged(nn.Module):
    """Gives its inputs back."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))

    def forward(self, inputs):
        return inputs + 0.0 * self.nothing


@register("metric", "f1")
class F1(Metric):
    """F1 of class 1, from counts."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("hits", torch.tensor(0), "sum")
        self.add_state("wrong", torch.tensor(0), "sum")

    def update(self, outcome):
        predicted, actual = outcome.predictions.argmax(1) == 1, outcome.targets == 1
        self.hits = self.hits + (predicted & actual).sum()
        self.wrong = self.wrong + (predicted ^ actual).sum()

    def compute(self):
        return 2 * self.hits / (2 * self.hits + self.wrong)


@register("metric", "highest")
class Highest(Metric):
    """The largest of the two logits of any sample."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("highest", torch.tensor(-math.inf), "max")

    def update(self, outcome):
        self.highest = torch.maximum(self.highest, outcome.predictions.max())

    def compute(self):
        return self.highest
