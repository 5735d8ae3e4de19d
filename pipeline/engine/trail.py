"""Which module of a model is at work, on what shapes: for errors that name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass
class Trail:
    """The modules whose forward has begun and not ended, outermost first, while ``following`` one."""

    entered: list[tuple[str, nn.Module, str]] = field(default_factory=list)
    """Name in the model, empty for the model itself; the module; the shapes that it was given."""
    output: str = ""
    """The shapes that the model itself gave last."""

    @contextmanager
    def following(self, model: nn.Module) -> Iterator[None]:
        """Follow every forward of ``model`` and its submodules inside."""
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._entry(name), with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave))
        self.entered.clear()
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @property
    def path(self) -> str:
        """The innermost module at work, as ``model.layers.0``; empty outside of all."""
        return ".".join(filter(None, ("model", self.entered[-1][0]))) if self.entered else ""

    def described(self) -> str:
        """The innermost module at work with its parameters' shapes and what it was given."""
        name, module, given = self.entered[-1]
        own = ", ".join(f"{key} {shape_of(p)}" for key, p in module.named_parameters(recurse=False))
        what = f"{type(module).__name__}{f' with {own}' if own else ''}"
        return f"{name} ({what}), given {given}" if name else f"{what}, given {given}"

    def _entry(self, name: str) -> Any:
        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = [shape_of(value) for value in args]
            given += [f"{key}={shape_of(value)}" for key, value in kwargs.items()]
            self.entered.append((name, module, ", ".join(given)))

        return enter

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        name = self.entered.pop()[0]
        if not name:
            self.output = shape_of(output)


def shape_of(value: Any) -> str:
    """A value's shape in words: ``float32 (64, 10)``, those of what it holds, or its type."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shape_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(shape_of(item) for item in value) + ")"
    return "none" if value is None else type(value).__name__
