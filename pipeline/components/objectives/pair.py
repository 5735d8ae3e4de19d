"""The two halves of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def inputs_and_targets(batch: Any, inputs: str, targets: str) -> tuple[Any, Any]:
    """Take a batch apart: a pair by position, a mapping by the two keys.

    Raises:
        ValueError: if it is neither a pair nor a mapping with these keys.
    """
    if type(batch) is tuple and len(batch) == 2:  # by far the most common, and in every step
        return batch
    if isinstance(batch, Mapping):
        missing = [key for key in (inputs, targets) if key not in batch]
        if missing:
            raise ValueError(
                f"the batch has the keys {list(batch)}, not {missing[0]!r}; "
                "set inputs and targets of the objective to two of them"
            )
        return batch[inputs], batch[targets]
    if isinstance(batch, Sequence) and not isinstance(batch, str) and len(batch) == 2:
        return batch[0], batch[1]
    size = f" of {len(batch)}" if isinstance(batch, Sequence) else ""
    raise ValueError(
        f"expected a batch (inputs, targets), or a mapping with the keys {inputs!r} and {targets!r}; "
        f"got {type(batch).__name__}{size}"
    )
