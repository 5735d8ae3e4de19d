"""The outputs for a whole dataset: collected from batches, and written to one file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from pipeline.api.outcome import Outcome
from pipeline.errors import ComponentError, RunError
from pipeline.runs.files import reason, remedy, sync_folder, temporary


@dataclass(frozen=True)
class Batch:
    """The outputs for one batch of n samples, on the CPU."""

    index: Tensor
    """int64 (n,), ascending."""
    predictions: Tensor
    """(n, ...)."""
    targets: Tensor | None
    """(n, ...), where the outcome has them."""


@dataclass(frozen=True)
class Predictions:
    """The outputs for a dataset of n samples, on the CPU, sorted by index."""

    index: Tensor
    """int64 (n,): 0, 1, ..., n - 1."""
    predictions: Tensor
    """(n, ...)."""
    targets: Tensor | None
    """(n, ...); None where some batch had none, or one of another shape."""


def batch_of(index: NDArray[np.int64], outcome: Outcome, objective: str) -> Batch:
    """Take the outputs off an outcome.

    Args:
        index: int64 (n,), the samples of the batch.
        objective: what to call it in an error.

    Raises:
        ComponentError: if the predictions are no tensor (n, ...).
    """
    n = len(index)
    predictions = outcome.predictions
    if not _has_rows(predictions, n):
        got = type(predictions).__name__
        if isinstance(predictions, Tensor):
            got = f"a tensor of shape {tuple(predictions.shape)}"
        raise ComponentError(
            f"{objective} gave {got} as the predictions of a batch of {n} samples; to write them by index, "
            f"Outcome.predictions must be a tensor of shape ({n}, ...)"
        )
    targets = outcome.targets if _has_rows(outcome.targets, n) else None
    return Batch(torch.from_numpy(index), _copied(predictions), None if targets is None else _copied(targets))


def joined(batches: Sequence[Batch], objective: str) -> Predictions:
    """The batches of all ranks as one, in the order of the indices.

    Raises:
        ComponentError: if the predictions of two batches differ in more than their number.
    """
    ordered = sorted(batches, key=lambda batch: int(batch.index[0]))
    first = ordered[0].predictions
    for batch in ordered:
        if batch.predictions.shape[1:] != first.shape[1:]:
            raise ComponentError(
                f"{objective} gave predictions of shape {tuple(first.shape)} for the batch at index 0 and "
                f"{tuple(batch.predictions.shape)} for the one at index {int(batch.index[0])}; in one file "
                "all but the first dimension must agree: pad them to one length"
            )
    targets = [batch.targets for batch in ordered if batch.targets is not None]
    whole = len(targets) == len(ordered) and len({target.shape[1:] for target in targets}) == 1
    return Predictions(
        torch.cat([batch.index for batch in ordered]),
        torch.cat([batch.predictions for batch in ordered]),
        torch.cat(targets) if whole else None,
    )


def _has_rows(value: Any, n: int) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and len(value) == n


def _copied(tensor: Tensor) -> Tensor:
    """A copy of its own: the model may give the same memory again for the next batch."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def write(path: Path, predictions: Predictions) -> None:
    """Write the file that the suffix asks for (``FORMATS``), whole or not at all.

    Raises:
        RunError: if it cannot be written; a file that was there stands.
    """
    beside = temporary(path)
    try:
        FORMATS[path.suffix](beside, predictions)
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}; {remedy(error)}") from error
    except SafetensorError as error:  # its own words for what the system refused
        raise RunError(f"cannot write {path}: {error}") from error
    finally:
        beside.unlink(missing_ok=True)


def _write_safetensors(path: Path, predictions: Predictions) -> None:
    tensors = {"index": predictions.index, "predictions": predictions.predictions}
    if predictions.targets is not None:
        tensors["targets"] = predictions.targets
    safetensors.torch.save_file(tensors, path)


def _write_jsonl(path: Path, predictions: Predictions) -> None:
    with path.open("w", encoding="utf-8") as file:
        for index, row in zip(predictions.index.tolist(), predictions.predictions, strict=True):
            file.write(json.dumps({"index": index, "predictions": _plain(row.tolist())}, allow_nan=False))
            file.write("\n")


def _write_npy(path: Path, predictions: Predictions) -> None:
    values = predictions.predictions
    if values.dtype == torch.bfloat16:  # numpy has no such type; float32 holds every value of it
        values = values.float()
    with path.open("wb") as file:  # given a path, numpy would add a suffix
        np.save(file, values.numpy(), allow_pickle=False)


def _plain(value: Any) -> Any:
    """For JSON, which has no words for what is not finite: "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


FORMATS: Mapping[str, Callable[[Path, Predictions], None]] = {
    ".safetensors": _write_safetensors,
    ".jsonl": _write_jsonl,
    ".npy": _write_npy,
}
"""The writer of each suffix."""
