"""A small decoder-only transformer over characters (or any tokens)."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor, nn


class CharTransformer(nn.Module):
    """A causal transformer: pre-norm blocks, learned positions, GELU.

    Takes tokens (N, T) as integers below vocab_size, T up to context; gives logits (N, T, vocab_size),
    those at position t from the tokens up to t alone.

    Args:
        vocab_size: number of tokens; at least the vocabulary of the dataset.
        context: the longest sequence it can see.
        width: numbers per position, a multiple of ``heads``.
        depth: number of blocks.
        heads: attention heads per block.
        dropout: probability of dropping in training, in attention and before each residual sum.
        tie_weights: use the token embedding as the output layer too.
    """

    def __init__(
        self,
        vocab_size: Annotated[int, Ge(1)],
        *,
        context: Annotated[int, Ge(1)] = 128,
        width: Annotated[int, Ge(1)] = 128,
        depth: Annotated[int, Ge(1)] = 4,
        heads: Annotated[int, Ge(1)] = 4,
        dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
        tie_weights: bool = True,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads = {heads}, got {width}")
        self.vocab_size = vocab_size
        self.context = context
        self.tokens = nn.Embedding(vocab_size, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(width, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size, bias=False)
        self._initialise(depth)
        if tie_weights:
            self.head.weight = self.tokens.weight

    def _initialise(self, depth: int) -> None:
        """GPT-2's: small normal weights, smaller still where a layer adds to the residual stream."""
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                scale = 0.02 / math.sqrt(2 * depth) if name.endswith("out") else 0.02
                nn.init.normal_(module.weight, std=scale)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[-1]
        if tokens.dim() != 2 or length > self.context:
            raise ValueError(
                f"expected tokens (N, T) with T up to context = {self.context}, got {tuple(tokens.shape)}"
            )
        positions = torch.arange(length, device=tokens.device)
        hidden = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


class _Block(nn.Module):
    """Attention and a two-layer perceptron, each normed before and added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.dropout(self._attend(self.attention_norm(hidden)))
        outputs: Tensor = self.dropout(self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(hidden)))))
        return hidden + outputs

    def _attend(self, hidden: Tensor) -> Tensor:
        """Causal self-attention over (N, T, width)."""
        heads_apart = self.attention_in(hidden).unflatten(-1, (3, self.heads, -1))  # (N, T, 3, heads, size)
        query, key, value = heads_apart.permute(2, 0, 3, 1, 4)  # each (N, heads, T, size)
        drop = self.dropout.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=drop, is_causal=True)
        outputs: Tensor = self.attention_out(mixed.transpose(1, 2).flatten(2))
        return outputs
