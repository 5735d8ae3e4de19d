"""The bundled digits: 1,797 handwritten digits of 8x8 pixels, so that a first run needs no download.

UCI "Optical Recognition of Handwritten Digits"; licence and attribution in DIGITS-LICENSE.md.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from pipeline.api.seeds import derive_seed

_TEST_SAMPLES = 360


class Digits(Dataset[tuple[Tensor, Tensor]]):
    """The bundled digits, in memory: (pixels, label) pairs.

    Pixels are float32 from 0 to 1; labels int64 from 0 to 9. The split is fixed: the 360 rows of
    the file whose numbers hash lowest are the test split, the other 1,437 the train split. Every
    writer has digits in both, so the task is easier than reading a stranger's hand.

    Args:
        split: which of the two parts.
        image: give pixels as images (1, 8, 8) instead of rows of 64.
    """

    def __init__(self, split: Literal["train", "test"] = "train", image: bool = False) -> None:
        rows = _read_rows()
        chosen = torch.from_numpy(rows[_is_test(len(rows)) == (split == "test")])
        pixels = chosen[:, :-1].float() / 16
        self.pixels = pixels.view(-1, 1, 8, 8) if image else pixels
        self.labels = chosen[:, -1].long()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.pixels[index], self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batch, already collated: pixels (N, 64) or (N, 1, 8, 8), labels (N,)."""
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return self.pixels.index_select(0, chosen), self.labels.index_select(0, chosen)

    @staticmethod
    def collate_fn(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return batch  # __getitems__ has collated it


def _read_rows() -> NDArray[np.uint8]:
    """The file's rows (1797, 65): 64 pixels from 0 to 16, then the label."""
    path = files(__package__) / "digits.csv.gz"
    with path.open("rb") as packed, gzip.open(packed, "rt") as text:
        return np.loadtxt(text, delimiter=",", dtype=np.uint8)


def _is_test(rows: int) -> NDArray[np.bool_]:
    """For each row (rows,), whether it belongs to the test split."""
    hashes = np.array([derive_seed(0, "digits", row) for row in range(rows)])
    mask = np.zeros(rows, dtype=np.bool_)
    mask[np.argsort(hashes)[:_TEST_SAMPLES]] = True
    return mask
