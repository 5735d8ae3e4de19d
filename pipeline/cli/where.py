"""The expressions of ``pipeline runs --where``: comparisons joined by and, or, not and parentheses.

    status == completed and (optimizer.lr <= 0.01 or not eval/accuracy < 0.9)

A key is a word (a dotted config key, a metric with its slash, a field of the run) or a quoted text; a
value is a number, true, false, a word or a quoted text. Nothing is ever evaluated as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pipeline.errors import RunError

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Whether a run, given as one flat table of all its keys, is meant."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<operator><=|>=|==|!=|<|>) | (?P<bracket>[()])
      | (?P<quoted>"[^"]*"|'[^']*')
      | (?P<word>[\w./@+-]+)
    )""",
    re.VERBOSE,
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MAX_DEPTH = 50


@dataclass(frozen=True)
class Where:
    """An expression that was read."""

    test: Test
    keys: tuple[tuple[str, int], ...]
    """The keys that it names, each with its column, from 1."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


def read_where(text: str) -> Where:
    """Read an expression.

    Raises:
        RunError: with the column of the fault.
    """
    reading = _Reading(text, list(_tokens(text)))
    test = reading.any_of(0)
    reading.end()
    return Where(test, tuple(reading.keys))


def where_error(text: str, column: int, message: str) -> RunError:
    """A fault of an expression, with a mark under its place."""
    return RunError(f"--where: column {column}: {message}\n  {text}\n  {' ' * (column - 1)}^")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            column = len(text) - len(text[at:].lstrip()) + 1
            raise where_error(text, column, f"{text[column - 1]!r} cannot stand here")
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind) + 1)
        at = match.end()
    yield _Token("end", "", len(text.rstrip()) + 1)


class _Reading:
    """Recursive descent: ``or`` binds less than ``and``, which binds less than ``not``."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self.keys: list[tuple[str, int]] = []
        self._text = text
        self._tokens = tokens

    def any_of(self, depth: int) -> Test:
        tests = [self._all_of(depth)]
        while self._takes("or"):
            tests.append(self._all_of(depth))
        return lambda run: any(test(run) for test in tests)

    def end(self) -> None:
        if self._tokens[0].kind != "end":
            raise self._unexpected("and, or, or the end")

    def _all_of(self, depth: int) -> Test:
        tests = [self._one(depth)]
        while self._takes("and"):
            tests.append(self._one(depth))
        return lambda run: all(test(run) for test in tests)

    def _one(self, depth: int) -> Test:
        if depth > _MAX_DEPTH:
            raise where_error(self._text, self._tokens[0].column, f"nested deeper than {_MAX_DEPTH} levels")
        if self._takes("not"):
            inner = self._one(depth + 1)
            return lambda run: not inner(run)
        if self._takes("("):
            inside = self.any_of(depth + 1)
            if not self._takes(")"):
                raise self._unexpected("and, or, or ')'")
            return inside
        return self._comparison()

    def _comparison(self) -> Test:
        key = self._next(("word", "quoted"), "a key, as optimizer.lr, eval/accuracy or status")
        compare = _COMPARISONS[self._next(("operator",), "one of < <= > >= == !=").text]
        value = _value(self._next(("word", "quoted"), "a value"))
        name = _unquoted(key)
        self.keys.append((name, key.column))
        return lambda run: name in run and _holds(compare, run[name], value)

    def _takes(self, text: str) -> bool:
        """Take the next token if it is this word or bracket."""
        if self._tokens[0].text != text:
            return False
        self._tokens.pop(0)
        return True

    def _next(self, kinds: tuple[str, ...], expected: str) -> _Token:
        if self._tokens[0].kind not in kinds:
            raise self._unexpected(expected)
        return self._tokens.pop(0)

    def _unexpected(self, expected: str) -> RunError:
        token = self._tokens[0]
        got = repr(token.text) if token.text else "the end"
        return where_error(self._text, token.column, f"got {got}; expected {expected}")


def _unquoted(token: _Token) -> str:
    return token.text[1:-1] if token.kind == "quoted" else token.text


def _value(token: _Token) -> bool | int | float | str:
    if token.kind == "quoted":
        return _unquoted(token)
    if token.text in ("true", "false"):
        return token.text == "true"
    for number in (int, float):
        try:
            return number(token.text)
        except ValueError:
            continue
    return token.text


def _holds(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    """Compare like with like; what is of two kinds is unequal, and neither less nor greater."""
    if _family(left) is not _family(right):
        return compare is operator.ne
    return bool(compare(left, right))


def _family(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)
