"""Datasets, orders and models for tests of what is read by whom; a local file, as a user would have one."""

from __future__ import annotations

import torch
from torch import nn

from pipeline import register


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
