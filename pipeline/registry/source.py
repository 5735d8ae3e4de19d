"""What a component takes, read from the text of its module: nothing is imported, and no torch."""

from __future__ import annotations

import ast
import builtins
import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline.config.fitting import UnsureError, Unwritable
from pipeline.registry.loading import find_without_import

MISSING = object()
"""The default of an argument that has none."""

_IMPORTED = frozenset(
    {
        "annotated_types",
        "collections.abc",
        "datetime",
        "pathlib",
        "pipeline.api.metric_name",
        "pipeline.api.period",
        "typing",
    }
)
"""Modules whose names have their meaning in annotations and defaults."""
_TYPES = frozenset({"bool", "dict", "float", "int", "list", "str", "tuple", "type"})
_TAMPERED = frozenset({"__new__", "__signature__", "config_model"})
"""What makes a class be called otherwise than its __init__ says."""


@dataclass(frozen=True)
class Argument:
    """One argument as it is written; no value of it is known yet."""

    name: str
    module: Module
    is_positional: bool
    written_type: ast.expr | None
    written_default: ast.expr | None

    @property
    def annotation(self) -> Any:
        """Raises: UnsureError."""
        return Any if self.written_type is None else self.module.value(self.written_type)

    @property
    def default(self) -> Any:
        """Raises: UnsureError."""
        return MISSING if self.written_default is None else self.module.value(self.written_default)


def arguments_of(target: str) -> tuple[Argument, ...]:
    """The arguments of a class or function, without ``self``.

    Args:
        target: ``module:object``.

    Raises:
        UnsureError: if its text does not plainly say them.
    """
    module, _, name = target.partition(":")
    return Module.find(module).arguments(name)


class Module:
    """The text of a module: what its names stand for, as long as each is bound once."""

    def __init__(self, name: str, package: str, text: bytes) -> None:
        self._name, self._package, self._text = name, package, text

    @classmethod
    def find(cls, name: str) -> Module:
        """Raises: UnsureError: if there is no module of Python's."""
        spec = find_without_import(name)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            raise UnsureError(f"{name} is no file")
        package = name if spec.submodule_search_locations else name.rpartition(".")[0]
        try:
            return cls(name, package, Path(spec.origin).read_bytes())
        except OSError as error:
            raise UnsureError(f"{name} cannot be read") from error

    def arguments(self, name: str) -> tuple[Argument, ...]:
        """Those of a class or function of this module, or of one that it imports."""
        written = self._binding(name)
        if isinstance(written, ast.ImportFrom):
            origin, original = self._imported(written, name)
            return Module.find(origin).arguments(original)
        if isinstance(written, ast.ClassDef) and not written.decorator_list and not written.keywords:
            return self._arguments_of_class(written)
        if isinstance(written, ast.FunctionDef) and not written.decorator_list:
            return tuple(self._arguments_of_function(written))
        raise UnsureError(f"{name} is no plain class or function")

    def value(self, written: ast.expr) -> Any:
        """What an annotation or a default stands for."""
        names = {node.id for node in ast.walk(written) if isinstance(node, ast.Name)}
        known = {name: self._meaning(name) for name in names}
        try:
            code = compile(ast.Expression(written), self._name, "eval")
            return eval(code, {"__builtins__": {}}, known)
        except Exception as error:
            raise UnsureError(f"{ast.unparse(written)} has no plain meaning") from error

    def _meaning(self, name: str) -> Any:
        if name not in self._bindings:
            if name in _TYPES:
                return getattr(builtins, name)
            raise UnsureError(f"{name} is not known")
        written = self._binding(name)
        if isinstance(written, ast.Assign):  # a constant of the module
            return self.value(written.value)
        if not isinstance(written, ast.ImportFrom):
            raise UnsureError(f"{name} is no value")
        origin, original = self._imported(written, name)
        if (origin, original) == ("torch", "Tensor"):
            return Unwritable
        if origin not in _IMPORTED:
            raise UnsureError(f"{origin} is not imported for it")
        return getattr(import_module(origin), original)

    def _binding(self, name: str) -> ast.stmt:
        bound = self._bindings.get(name)
        if bound is None:
            raise UnsureError(f"{self._name} does not bind {name} once")
        return bound

    @cached_property
    def _bindings(self) -> dict[str, ast.stmt | None]:
        """By name the one statement that binds it; None: there are several."""
        try:
            tree = ast.parse(self._text)
        except (SyntaxError, ValueError) as error:
            raise UnsureError(f"{self._name} cannot be parsed") from error
        pairs = [(name, statement) for statement in _statements(tree.body) for name in _bound(statement)]
        times = Counter(name for name, _ in pairs)
        if "*" in times:
            raise UnsureError(f"{self._name} imports all names of a module")
        return {name: statement if times[name] == 1 else None for name, statement in pairs}

    def _imported(self, written: ast.ImportFrom, name: str) -> tuple[str, str]:
        """The module and the name there."""
        (original,) = (alias.name for alias in written.names if name == (alias.asname or alias.name))
        relative = "." * written.level + (written.module or "")
        return importlib.util.resolve_name(relative, self._package), original

    def _arguments_of_class(self, written: ast.ClassDef) -> tuple[Argument, ...]:
        bound = [(name, one) for one in written.body for name in _bound(one)]
        if any(name in _TAMPERED for name, _ in bound):
            raise UnsureError(f"{written.name} is called in its own way")
        own = [one for name, one in bound if name == "__init__"]
        if not own:
            return self._arguments_of_base(written)
        if len(own) > 1 or not isinstance(own[0], ast.FunctionDef) or own[0].decorator_list:
            raise UnsureError(f"{written.name} has no plain __init__")
        return tuple(self._arguments_of_function(own[0]))[1:]

    def _arguments_of_base(self, written: ast.ClassDef) -> tuple[Argument, ...]:
        match written.bases:
            case []:
                return ()
            case [ast.Name(id=name)]:
                return self.arguments(name)
        raise UnsureError(f"{written.name} has no __init__ of its own")

    def _arguments_of_function(self, written: ast.FunctionDef) -> Iterator[Argument]:
        given = written.args
        if given.posonlyargs or given.vararg or given.kwarg:
            raise UnsureError(f"{written.name} takes more than named arguments")
        lacking = [None] * (len(given.args) - len(given.defaults))
        for one, default in zip(given.args, [*lacking, *given.defaults], strict=True):
            yield Argument(one.arg, self, True, one.annotation, default)
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            yield Argument(one.arg, self, False, one.annotation, default)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module, and what it imports for its annotations alone."""
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from statement.body
            yield from statement.orelse
        else:
            yield statement


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds, changes or takes away, as often as it does."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield from _changed(node)


def _changed(node: ast.Attribute) -> Iterator[str]:
    """The name of an object that gets an attribute, if it may matter."""
    if isinstance(node.value, ast.Name) and node.attr not in ("__doc__", "__module__"):
        yield node.value.id
