"""Datasets, orders and models for tests of what is read by whom; a local file, as a user would have one."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import IterableDataset

from pipeline import Metric, Outcome, register


def tell(folder: Path, **row: object) -> None:
    """Append a row to FOLDER/rank-R.jsonl; one write, so that workers may share the file."""
    with (folder / f"rank-{os.environ.get('RANK', '0')}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


class Shard:
    """Some numbers as samples: inputs (8,) that are drawn anew each time, a label, and the number."""

    def __init__(self, numbers, noise: float, reads: Path | None, dtype: torch.dtype = torch.float64) -> None:
        self.numbers = numbers
        self.dtype = dtype
        self.noise = noise
        self.reads = reads
        self.done = 0

    def __iter__(self):
        for number in self.numbers[self.done :]:
            self.done += 1
            drawn = [torch.rand(()).item(), float(np.random.rand()), random.random()]
            if self.reads is not None:
                tell(self.reads, read=number, drawn=drawn)
            generator = torch.Generator().manual_seed(number)
            inputs = torch.randn(8, generator=generator, dtype=self.dtype)
            yield inputs + self.noise * sum(drawn), number % 3, number


class Resumable(Shard):
    """The same, and knows its place."""

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


@register("dataset", "unsplit")
class Unsplit(IterableDataset):
    """Numbers 0, 1, ... that cannot be split; it has a length, which does not make it map-style."""

    def __init__(self, length: int, noise: float = 0.0) -> None:
        self.length = length
        self.noise = noise

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter(Shard(range(self.length), self.noise, None))


@register("dataset", "numbers")
class Numbers(Unsplit):
    """Numbers that are split by strides, in halves of unequal length, or so that the first shard is empty."""

    def __init__(
        self,
        length: int,
        split: Literal["strides", "blocks", "first_empty"] = "strides",
        resumable: bool = False,
        noise: float = 0.0,
        reads: Path | None = None,
        epochs: Path | None = None,
        single: bool = False,
    ) -> None:
        super().__init__(length, noise)
        self.dtype = torch.float32 if single else torch.float64
        self.split = split
        self.kind = Resumable if resumable else Shard
        self.reads = reads
        self.epochs = epochs

    def set_epoch(self, epoch: int) -> None:
        if self.epochs is not None:
            tell(self.epochs, set_epoch=epoch)

    def shard(self, index: int, count: int):
        if self.split == "strides":
            numbers = range(self.length)[index::count]
        elif self.split == "first_empty":
            numbers = range(self.length)[index - 1 :: count - 1] if index else range(0)
        else:
            ends = [0, *(2 * self.length // 3 + n for n in range(count - 1)), self.length]
            numbers = range(ends[index], ends[index + 1])
        return self.kind(numbers, self.noise, self.reads, self.dtype)


@register("objective", "telling")
class Telling:
    """Cross entropy that writes down the numbers of every batch; with a weight of its own if asked."""

    def __init__(self, folder: Path | None = None, weighted: bool = False) -> None:
        self.folder = folder
        self.weighted = weighted

    def __call__(self, model, batch):
        inputs, labels, numbers = batch
        if self.folder is not None:
            tell(self.folder, training=model.training, numbers=numbers.tolist())
        logits = model(inputs)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        return Outcome(loss, torch.tensor(len(labels)) if self.weighted else None, numbers, labels)


@register("metric", "mean_number")
class MeanNumber(Metric):
    """The mean of the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0), "sum")
        self.add_state("seen", torch.tensor(0), "sum")

    def update(self, outcome):
        self.total = self.total + outcome.predictions.sum()
        self.seen = self.seen + len(outcome.predictions)

    def compute(self):
        return self.total / self.seen


@register("metric", "how_many")
class HowMany(MeanNumber):
    """How many numbers there were."""

    def compute(self):
        return self.seen


@register("dataset", "words")
class Words:
    """A word (2,) of 7 and its class of 3."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        return torch.tensor([index % 7, (index + 1) % 7]), index % 3


@register("model", "sparse_words")
class SparseWords(nn.Module):
    """Logits (N, 3) of words (N, 2), with sparse gradients."""

    def __init__(self, bag: bool = False) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(7, 4, sparse=True) if bag else nn.Embedding(7, 4, sparse=True)
        self.head = nn.Linear(4, 3)

    def forward(self, words):
        embedded = self.words(words)
        return self.head(embedded if embedded.dim() == 2 else embedded.mean(1))


@register("dataset", "indexed")
class Indexed:
    """Of any length: notes the indices asked for, what is drawn for them, and the epochs that it is told."""

    def __init__(
        self, length: int, folder: Path | None = None, draws: bool = False, rank_draws: bool = False
    ) -> None:
        self.length = length
        self.folder = folder
        self.draws = draws
        self.epoch = -1
        if rank_draws:
            torch.rand(1 + 3 * int(os.environ.get("RANK", "0")))

    def __len__(self) -> int:
        return self.length

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        if self.folder is not None:
            tell(self.folder, set_epoch=epoch, pid=os.getpid())

    def __getitem__(self, index: int):
        if self.folder is not None:
            drawn = [torch.rand(()).item(), float(np.random.rand()), random.random()] if self.draws else []
            tell(self.folder, epoch=self.epoch, index=index, draws=drawn)
        return torch.full((8,), float(index % 5)), index % 3, index


@register("dataset", "wrapped")
def wrapped(length: int, folder: Path) -> torch.utils.data.Dataset:
    """The same behind two of torch's wrappers, which do not pass an epoch on."""
    whole = Indexed(length, folder)
    cuts = (range(length // 2), range(length // 2, length))
    return torch.utils.data.ConcatDataset([torch.utils.data.Subset(whole, cut) for cut in cuts])


@register("sampler", "descending")
class Descending(torch.utils.data.Sampler):
    """The last sample first; a torch Sampler that notes the epochs it is told, and when it is read."""

    def __init__(self, dataset, folder: Path | None = None) -> None:
        self.length = len(dataset)
        self.folder = folder

    def __len__(self) -> int:
        return self.length

    def set_epoch(self, epoch: int) -> None:
        if self.folder is not None:
            tell(self.folder, set_epoch=epoch)

    def __iter__(self):
        if self.folder is not None:
            tell(self.folder, read=True)
        return iter(range(self.length - 1, -1, -1))


@register("sampler", "inside_another")
class InsideAnother(torch.utils.data.Sampler):
    """Wraps a sampler and does not pass an epoch on."""

    def __init__(self, dataset, folder: Path | None = None) -> None:
        self.sampler = Descending(dataset, folder)

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self):
        return iter(self.sampler)


@register("sampler", "batched")
def batched(dataset) -> torch.utils.data.BatchSampler:
    """A batch sampler around a sampler."""
    return torch.utils.data.BatchSampler(Descending(dataset), batch_size=2, drop_last=False)


@register("sampler", "outside_in")
class OutsideIn:
    """A third party's order: the first, the last, the second, the last but one, ..."""

    def __init__(self, dataset) -> None:
        self.samples_per_epoch = len(dataset)

    def indices(self, epoch: int, start: int, stop: int):
        positions = np.arange(start, stop)
        return np.where(positions % 2, self.samples_per_epoch - 1 - positions // 2, positions // 2)
