"""Interpolation: every ``${...}`` of a merged tree, resolved once.

Each text is resolved one time and remembered, so the work is linear in the text of the config. An
explicit stack stands for the recursion: a reference to a value that is not there yet suspends the
text that needs it, and the text is read again when the value is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pipeline.config.document import MAX_DEPTH, depth, unusable_keys
from pipeline.config.expression import ExpressionError, evaluate, parse_text
from pipeline.config.functions import FUNCTIONS, EnvironmentText, call
from pipeline.config.keys import KeyPath, children, copied, dotted, find, walk
from pipeline.config.masking import masked_variables
from pipeline.config.references import absolute, member, unknown
from pipeline.config.wording import listed, nearest

MAX_CHAIN = 64
MAX_SIZE = 1 << 16
"""Characters of one resolved text, and members of one resolved table, counted together."""
MAX_TOTAL = 1 << 24
_SUGGESTED = 20
"""How many references to nothing get the nearest key: comparing with all keys is slow."""
_PENDING = "\ue000pending\ue000"
"""Stands for a value that is not there yet; whatever is made with it is thrown away."""

Complain: TypeAlias = Callable[[KeyPath, str, str, str], None]
"""Reports a problem: path, message, expected, nearest."""


@dataclass(frozen=True)
class Interpolated:
    """A tree without ``${``."""

    tree: dict[str, Any]
    environment: Mapping[KeyPath, str]
    """What depends on environment variables, directly or not: each text as written."""
    whole: frozenset[KeyPath]
    """Those of them that are one ``${oc.env:X}`` and nothing else."""
    variables: Mapping[str, str]
    """Each text that was taken from the environment, and the variable that holds it."""
    broken: frozenset[KeyPath]
    """Keys that could not be resolved; they are left out of the tree."""


def interpolate(tree: Mapping[str, Any], complain: Complain) -> Interpolated:
    """Resolve every text that contains ``${``; what cannot be resolved is reported and left out."""
    resolver = Resolver(tree, complain)
    texts = [path for path, value in walk(tree) if _is_open(value)]
    for path in texts:
        resolver.resolve(path)
    return resolver.result(texts)


def _is_open(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


@dataclass(frozen=True)
class _Answer:
    value: Any
    from_environment: bool
    chain: int
    """How many references lead to the value, the longest way."""


@dataclass
class _Frame:
    """One text that is being resolved."""

    path: KeyPath
    needs: dict[KeyPath, None] = field(default_factory=dict)
    """References that must be resolved before the text is read again."""
    from_environment: bool = False
    chain: int = 0
    size: int = 0


class _FailedError(Exception):
    """Another key's problem, reported already."""


class Resolver:
    """Resolves single texts of a tree, on demand."""

    def __init__(self, tree: Mapping[str, Any], complain: Complain) -> None:
        self._tree = tree
        self._complain = complain
        self._answers: dict[KeyPath, _Answer] = {}
        self._failed: set[KeyPath] = set()
        self._parsed: dict[KeyPath, Any] = {}
        self._total = 0
        self._variables: dict[str, str] = {}

    def resolve(self, path: KeyPath) -> Any:
        """The value of the text at ``path``; None where it cannot be resolved, which is reported."""
        stack = [] if self._is_settled(path) else [_Frame(path)]
        while stack:
            frame = stack[-1]
            if not frame.needs:
                self._attempt(frame)
                if not frame.needs:
                    stack.pop()
                continue
            needed, _ = frame.needs.popitem()
            active = [other.path for other in stack]
            if needed in active:
                self._fail_cycle(active[active.index(needed) :])
                del stack[active.index(needed) :]
            elif not self._is_settled(needed):
                stack.append(_Frame(needed))
        answer = self._answers.get(path)
        return answer.value if answer else None

    def result(self, texts: list[KeyPath]) -> Interpolated:
        """The tree with the values of all ``texts`` in place; one that is null is not set."""
        tree = copied(self._tree)
        environment = {}
        for path in reversed(texts):  # so that positions in arrays stay true
            answer = self._answers.get(path)
            holder = find(tree, path[:-1])
            if answer is not None and answer.from_environment:
                environment[path] = find(self._tree, path)
            if answer is not None and answer.value is not None:
                holder[path[-1]] = _plain(answer.value)
                continue
            if answer is not None and isinstance(holder, list):
                self._complain(path, "null cannot stand in an array", "", "")
                self._failed.add(path)
            del holder[path[-1]]
        whole = frozenset(p for p in environment if isinstance(self._answers[p].value, EnvironmentText))
        return Interpolated(tree, environment, whole, self._variables, frozenset(self._failed))

    def _is_settled(self, path: KeyPath) -> bool:
        return path in self._answers or path in self._failed

    def _attempt(self, frame: _Frame) -> None:
        """Read one text: it is settled afterwards, or the frame knows what it needs first."""
        frame.chain, frame.size, frame.from_environment = 0, 0, False
        try:
            value = evaluate(
                self._parse(frame.path),
                lambda written: self._refer(frame, written),
                lambda name, arguments: self._call(frame, name, arguments),
            )
            if frame.needs:
                return
            self._check(frame, value)
        except ExpressionError as error:
            frame.needs.clear()
            self._failed.add(frame.path)
            message, expected = (
                masked_variables(text, self._variables) for text in (error.message, error.expected)
            )
            self._complain(frame.path, message, expected, error.nearest)
        except _FailedError:
            frame.needs.clear()
            self._failed.add(frame.path)
        else:
            self._answers[frame.path] = _Answer(value, frame.from_environment, frame.chain)

    def _parse(self, path: KeyPath) -> Any:
        if self._total > MAX_TOTAL:
            raise _FailedError
        if path not in self._parsed:
            text = find(self._tree, path)
            if len(text) > MAX_SIZE:
                raise ExpressionError(f"the text has {len(text)} characters", f"at most {MAX_SIZE}")
            self._parsed[path] = parse_text(text)
        return self._parsed[path]

    def _call(self, frame: _Frame, name: str, arguments: tuple[Any, ...]) -> Any:
        if _PENDING in name or _PENDING in str(arguments):
            return _PENDING
        if name not in FUNCTIONS:
            message = f"there is no function {name!r} for interpolation"
            raise ExpressionError(message, listed(FUNCTIONS), nearest(name, FUNCTIONS))
        if name == "oc.env":
            frame.from_environment = True
        value = call(
            name,
            arguments,
            lambda written: self._refer(frame, written),
            lambda inner, values: self._call(frame, inner, values),
        )
        if name == "oc.env" and str(arguments[0]) in os.environ:  # else the value is the default
            self._variables[str(value)] = str(arguments[0])
        return self._taken_in(frame, value)

    def _refer(self, frame: _Frame, written: str) -> Any:
        """The value of a reference, or a placeholder while something on the way to it is open."""
        if _PENDING in written:
            return _PENDING
        path: KeyPath = ()
        node: Any = self._tree
        raw = True  # whether node is still the config's own, so that texts in it are open
        target = absolute(written, frame.path)
        for part in target:
            found = member(node, part)
            if found is None:
                raise unknown(written, target, self._tree, compares=len(self._failed) < _SUGGESTED)
            path, node = (*path, found), node[found]
            if raw and _is_open(node):
                raw = False
                if not self._is_there(frame, path):
                    return _PENDING
                node = self._answers[path].value
        if raw:
            node = self._assembled(frame, path, node)
        return self._taken_in(frame, node)

    def _assembled(self, frame: _Frame, path: KeyPath, node: Any) -> Any:
        """A table or array of the config with all texts in it resolved."""
        frame.chain = max(frame.chain, 1)
        texts = [below for below, value in walk(node, path) if _is_open(value)]
        there = [self._is_there(frame, text) for text in texts]
        if not all(there):
            return _PENDING
        whole = copied(node)
        for text in texts:
            find(whole, text[len(path) : -1])[text[-1]] = self._answers[text].value
        return whole

    def _is_there(self, frame: _Frame, path: KeyPath) -> bool:
        if path in self._failed:
            raise _FailedError
        if path not in self._answers:
            frame.needs[path] = None
            return False
        answer = self._answers[path]
        frame.chain = max(frame.chain, answer.chain + 1)
        frame.from_environment |= answer.from_environment
        return True

    def _taken_in(self, frame: _Frame, value: Any) -> Any:
        """The value, counted against what one text may take in."""
        frame.size += _size(value)
        if frame.size > MAX_SIZE:
            raise ExpressionError("the text grows past 64 KiB", f"at most {MAX_SIZE} characters")
        return value

    def _check(self, frame: _Frame, value: Any) -> None:
        size = _size(value)
        self._total += size
        if size > MAX_SIZE:
            raise ExpressionError("the text grows past 64 KiB", f"at most {MAX_SIZE} characters")
        if self._total > MAX_TOTAL:
            raise ExpressionError("all interpolations together grow past 16 MiB")
        if frame.chain > MAX_CHAIN:
            raise ExpressionError(f"the chain of references has {frame.chain} links", f"at most {MAX_CHAIN}")
        if len(frame.path) + depth(value) > MAX_DEPTH:
            raise ExpressionError(f"the value is nested deeper than {MAX_DEPTH} levels")
        for _, message, expected in unusable_keys(value):
            raise ExpressionError(message, expected)

    def _fail_cycle(self, cycle: list[KeyPath]) -> None:
        names = " -> ".join(dotted(path) for path in (*cycle, cycle[0]))
        self._failed.update(cycle)
        self._complain(cycle[0], f"the references go round in a circle: {names}", "", "")


def _size(value: Any) -> int:
    """Characters and members of a value, counted until they are too many."""
    size, stack = 0, [value]
    while stack and size <= MAX_SIZE:
        node = stack.pop()
        size += len(node) if isinstance(node, str) else 1
        stack.extend(child for _, child in children(node))
    return size


def _plain(value: Any) -> Any:
    """The value as TOML's types alone."""
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items() if child is not None}
    if isinstance(value, list | tuple):
        return [_plain(child) for child in value]
    return str(value) if isinstance(value, str) else value
