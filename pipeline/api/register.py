"""Registration of components from local files and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.api.kinds import Kind
from pipeline.errors import ComponentError

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class Registration:
    """One component that code in this process registered."""

    kind: Kind
    name: str
    component: Callable[..., Any]
    module: str
    qualname: str
    file: str
    line: int

    @property
    def origin(self) -> str:
        """The place of the definition, as ``my_model.Tiny (my_model.py:12)``."""
        return f"{self.module}.{self.qualname} ({self.file}:{self.line})"


_registrations: dict[tuple[Kind, str], dict[tuple[str, str], Registration]] = {}


def register(kind: str, name: str) -> Callable[[T], T]:
    """Make a class or function a component: ``@register("model", "tiny")``.

    Registering the same definition again (a notebook cell run twice, a reloaded module) replaces
    it; a second definition of the name is an error only when the name is used.

    Raises:
        ComponentError: if the kind is none of the eight, or the name cannot stand in a config.
    """
    if kind not in {k.value for k in Kind}:
        raise ComponentError(f"register: {kind!r} is no kind; the kinds are {', '.join(Kind)}")
    if not name or any(character in name for character in "/ \t\n"):
        raise ComponentError(f"register: {name!r} is no component name (no '/', no white space)")

    def decorate(component: T) -> T:
        module = getattr(component, "__module__", "?")
        qualname = getattr(component, "__qualname__", type(component).__qualname__)
        code = getattr(component, "__code__", None) or getattr(
            getattr(component, "__init__", None), "__code__", None
        )
        registration = Registration(
            Kind(kind),
            name,
            component,
            module,
            qualname,
            getattr(code, "co_filename", "?"),
            getattr(code, "co_firstlineno", 0),
        )
        _registrations.setdefault((Kind(kind), name), {})[module, qualname] = registration
        return component

    return decorate


def registrations() -> Iterator[Registration]:
    """All components registered in this process so far, in the order of registration."""
    for by_origin in _registrations.values():
        yield from by_origin.values()
