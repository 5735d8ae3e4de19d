"""What in a model makes a sample's result depend on the others of its batch, or on random draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from pipeline.engine.shapes import Operation

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """One operation of a forward pass, by its shapes."""

    name: str
    where: str
    """The module at work; empty outside of the model, in the objective."""
    inputs: tuple[Shape, ...]
    """Of floating-point inputs."""
    outputs: tuple[Shape, ...]
    draws: bool

    @classmethod
    def of(cls, operation: Operation, where: str) -> Seen:
        return cls(
            operation.name,
            where,
            tuple(tuple(t.shape) for t in operation.inputs if t.is_floating_point()),
            tuple(tuple(t.shape) for t in operation.outputs),
            operation.draws,
        )


def batch_norms(model: nn.Module, prefix: str) -> Iterator[str]:
    """Batch norms whose statistics are those of one rank's microbatch."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            yield (
                f"{_path(prefix, name)} ({type(module).__name__}): its statistics are those of one rank's "
                "microbatch, so training depends on ranks and train.max_microbatch_size"
            )


def draws(forward: Sequence[Seen]) -> Iterator[str]:
    """Modules that draw random numbers in training."""
    for where in dict.fromkeys(seen.where or "objective" for seen in forward if seen.draws):
        yield f"{where} draws random numbers in training: ranks draw different ones"


def in_batch(forward: Sequence[Seen], other: Sequence[Seen]) -> Iterator[str]:
    """Where samples may see one another, told from two passes with different numbers of samples.

    A dimension that differs between the two is one of samples. Two of them in one result compare
    samples in pairs; none, where an input had one, is a result of all samples. Passes that took
    different operations tell nothing.
    """
    if [seen.name for seen in forward] != [seen.name for seen in other]:
        return
    found: dict[str, str] = {}
    for one, two in zip(forward, other, strict=True):
        widths = [_differing(a, b) for a, b in zip(one.outputs, two.outputs, strict=False)]
        came_in = any(_differing(a, b) for a, b in zip(one.inputs, two.inputs, strict=False))
        where = one.where or "objective"
        if max(widths, default=0) > 1:
            found.setdefault(where, f"{where} compares the samples of a batch in pairs ({one.name})")
        elif one.where and widths and not any(widths) and came_in:
            found.setdefault(where, f"{where} computes something of all samples of a batch ({one.name})")
    for text in found.values():
        yield f"{text}: a rank sees those of its own microbatch alone"


def _differing(one: Shape, two: Shape) -> int:
    return sum(a != b for a, b in zip(one, two, strict=False)) if len(one) == len(two) else 0


def _path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if name else prefix
