"""Characters of a text file, for next-character models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor
from torch.utils.data import Dataset


class Text(Dataset[tuple[Tensor, Tensor]]):
    """Windows of a UTF-8 text file, in memory: (tokens, next tokens) pairs of int64 (context,).

    A token is a character's place in ``vocabulary``, the sorted characters of the whole file, so
    both splits of one file have the same. The last part of the file is the eval split; a window
    lies in one split alone.

    Args:
        path: the text file.
        split: the part before the cut, or the part after it.
        context: characters that a window shows the model.
        stride: characters from one window's start to the next's; default: context, so that windows
            do not overlap.
        eval_fraction: share of the file, at its end, that is the eval split.
        vocab_size: the most distinct characters that the file may have, to be given to the model too;
            default: no limit.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not UTF-8, has more than vocab_size distinct characters, or a split is
            too short for one window.
    """

    def __init__(
        self,
        path: Path,
        *,
        split: Literal["train", "eval"] = "train",
        context: Annotated[int, Ge(1)] = 128,
        stride: Annotated[int, Ge(1)] | None = None,
        eval_fraction: Annotated[float, Gt(0), Lt(1)] = 0.1,
        vocab_size: Annotated[int, Ge(1)] | None = None,
    ) -> None:
        text = _read(path)
        code_points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        characters, tokens = np.unique(code_points, return_inverse=True)
        self.vocabulary = "".join(map(chr, characters))
        if vocab_size is not None and len(characters) > vocab_size:
            raise ValueError(
                f"{path} has {len(characters)} distinct characters, more than vocab_size = {vocab_size}; "
                f"set vocab_size of dataset and model to at least {len(characters)}"
            )
        cut = len(tokens) - int(len(tokens) * eval_fraction)
        part = tokens[:cut] if split == "train" else tokens[cut:]
        if len(part) <= context:
            raise ValueError(
                f"the {split} split of {path} has {len(part)} characters; a window of context = {context} "
                f"and its next character need {context + 1}: give a longer file or a shorter context"
            )
        self.context = context
        self.stride = stride or context
        self.tokens = torch.from_numpy(part.astype(np.int32))  # half of int64; widened batch by batch

    def __len__(self) -> int:
        return (len(self.tokens) - self.context - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        inputs, targets = self.__getitems__([index % len(self)])
        return inputs[0], targets[0]

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batch, already collated: tokens (N, context) and next tokens (N, context)."""
        starts = torch.as_tensor(indices, dtype=torch.int64) * self.stride
        windows = self.tokens[starts.unsqueeze(1) + torch.arange(self.context + 1)].long()
        return windows[:, :-1], windows[:, 1:]

    @staticmethod
    def collate_fn(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return batch  # __getitems__ has collated it


def _read(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"there is no text file {path}; set the dataset's path")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
