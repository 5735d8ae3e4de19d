"""Tensors with shapes and types but no data: the one module that uses torch's private FakeTensor.

Whatever is computed in a ``ShapeMode`` costs no memory and gives tensors that only have a shape, a type
and a device. What needs a value (``item()``, an ``if`` on a tensor) cannot be computed so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

_LOG = logging.getLogger(fake_tensor.__name__)
_NEEDS_DATA = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
    NotImplementedError,
)
_MARKS = ("FakeTensor", "fake tensor", "data pointer", "storage", "meta tensor", "Couldn't swap")
"""What the messages of other errors say where the missing data is their cause."""


class ShapeMode:
    """Inside ``on()``, tensors are made and computed without data, on the CPU."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)

    @contextmanager
    def on(self) -> Iterator[None]:
        """The mode; it may be entered again and again, and its tensors then belong together."""
        level = _LOG.level
        _LOG.setLevel(logging.CRITICAL)  # it writes the traceback of an error that is raised as well
        try:
            with self._mode:
                yield
        finally:
            _LOG.setLevel(level)

    def of(self, batch: Any) -> Any:
        """A batch with its tensors replaced by ones without data; tuples, lists and mappings keep their form.

        Tensors on the meta device come out on the CPU.
        """
        if isinstance(batch, Tensor):
            return self._of_tensor(batch)
        if isinstance(batch, dict):
            return {key: self.of(value) for key, value in batch.items()}
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(self.of(value) for value in batch))
        if isinstance(batch, list | tuple):
            return type(batch)(self.of(value) for value in batch)
        return batch

    def _of_tensor(self, tensor: Tensor) -> Tensor:
        if tensor.is_meta:
            with self._mode:
                return torch.empty(tensor.shape, dtype=tensor.dtype)
        return self._mode.from_tensor(tensor)


def needs_data(error: BaseException) -> str | None:
    """Why an error only says that there was no data to compute with; None where it is a real one."""
    cause: BaseException | None = error
    while cause is not None:
        text = " ".join(str(cause).split())
        if isinstance(cause, _NEEDS_DATA) or any(mark in text for mark in _MARKS):
            return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return None


@dataclass(frozen=True)
class Operation:
    """One operation on tensors, as torch dispatches it."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    draws: bool
    """Whether it draws random numbers; a dropout of probability 0 does not."""


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells of every operation inside its ``with`` block, those of backward passes too."""

    def __init__(self, on_operation: Callable[[Operation], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._on_operation = on_operation

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs = tuple(tensors_in((args, kwargs or {})))
        self._on_operation(
            Operation(str(func), inputs, tuple(tensors_in(result)), _draws(func, args, kwargs or {}))
        )
        return result


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in tuples, lists and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def _draws(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
        return False
    schema = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(schema, args, strict=False)), **kwargs}
    probability = given.get("dropout_p", given.get("p"))
    if "dropout_p" in schema and probability is None:  # left at its default, 0
        return False
    return probability is None or probability != 0
