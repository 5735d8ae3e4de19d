"""Bytes that are alive while operations run, and the most that were at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

from torch import Tensor

from pipeline.engine.shapes import Operation


class Ledger:
    """Adds up the memory of tensors from when they are noted until nothing holds them any more.

    What several tensors share counts once. Gradients are told apart as ``add_gradient`` names them.
    """

    def __init__(self) -> None:
        self.alive = 0
        """Bytes, just now."""
        self.most = 0
        """The most bytes that were alive at once since ``mark``."""
        self.most_beside_gradients = 0
        """Likewise, gradients not counted."""
        self._gradients: set[int] = set()
        self._of_gradients = 0
        self._known: dict[int, weakref.ref[object]] = {}

    def note(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors that are not counted yet."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._known:
                size = storage.nbytes()
                self._known[key] = weakref.ref(storage, self._forgetter(key, size))
                self.alive += size

    def note_operation(self, operation: Operation, scratch: int = 0) -> None:
        """Count an operation's outputs, and for a moment the bytes that its kernel works in."""
        self.note(operation.outputs)
        held = self.alive + scratch
        self.most = max(self.most, held)
        self.most_beside_gradients = max(self.most_beside_gradients, held - self._of_gradients)

    def mark(self) -> None:
        """Look for the most from here on."""
        self.most = self.most_beside_gradients = self.alive

    def add_gradient(self, parameter: Tensor) -> None:
        """A parameter has its gradient now."""
        if parameter.grad is not None and id(parameter) not in self._gradients:
            self._gradients.add(id(parameter))
            self._of_gradients += parameter.grad.nbytes

    def drop_gradients(self) -> None:
        """The gradients are let go of."""
        self._gradients.clear()
        self._of_gradients = 0

    def _forgetter(self, key: int, size: int) -> Callable[[object], None]:
        def forget(_: object) -> None:
            del self._known[key]
            self.alive -= size

        return forget


def convolution_scratch(operation: Operation) -> int:
    """Bytes in which oneDNN, on a CPU, copies what a convolution takes and gives to layouts of its own."""
    if operation.name.startswith("aten.convolution."):
        return max(operation.inputs[0].nbytes, operation.outputs[0].nbytes)
    if operation.name.startswith("aten.convolution_backward"):
        outward, inputs = operation.inputs[0].nbytes, operation.inputs[1].nbytes
        inward = any(output.shape == operation.inputs[1].shape for output in operation.outputs)
        return max(2 * inputs, outward + inputs) if inward else outward
    return 0
