"""The grammar of ``${...}``: OmegaConf's own parser, with our meaning of references and functions.

OmegaConf's containers resolve a value anew for every reference to it, which is exponential in a
chain of doublings; here its grammar reads one text, and whoever calls decides what to remember.
Texts with nothing but plain references, ``${vars.x}``, are read here: OmegaConf is slow to import.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Reference: TypeAlias = Callable[[str], Any]
"""Gives the value of a reference as written, ``vars.x`` or ``..lr``."""
Function: TypeAlias = Callable[[str, tuple[Any, ...]], Any]
"""Gives the value of a function by name and arguments: ``oc.env`` of ``("HOME",)``."""

_PLAIN_PIECE = re.compile(r"\$\{(\.*[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\}|([^$\\]+)")
_BEFORE_DOLLAR = re.compile(r"(\\*)\$\{")
_DEEPEST = 32


@dataclass(frozen=True)
class PlainText:
    """A text of plain references and what stands between them, in the place of a parse tree."""

    pieces: tuple[tuple[str, str], ...]
    """Each a reference or a text; the other one is empty."""

    def value(self, reference: Reference) -> Any:
        """A text that is one reference and nothing else keeps its type."""
        values = [reference(written) if written else text for written, text in self.pieces]
        return values[0] if len(values) == 1 else "".join(map(str, values))


class ExpressionError(Exception):
    """A text with ``${`` does not follow the grammar, or what it asks for is not there."""

    def __init__(self, message: str, expected: str = "", nearest: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.nearest = nearest


def parse_text(text: str) -> Any:
    """The parse tree of a config's text.

    Raises:
        ExpressionError: if the text does not follow the grammar.
    """
    return _plain_text(text) or _parse(text, "configValue", "DEFAULT_MODE")


def parse_element(text: str) -> Any:
    """The parse tree of what ``oc.decode`` reads: a number, a list, ...

    Raises:
        ExpressionError: if the text does not follow the grammar.
    """
    return _parse(text, "singleElement", "VALUE_MODE")


def evaluate(tree: Any, reference: Reference, function: Function) -> Any:
    """The value of a parse tree; a text that is one interpolation and nothing else keeps its type.

    Raises:
        ExpressionError: if values do not fit where they stand. What ``reference`` and ``function``
            raise goes through.
    """
    if isinstance(tree, PlainText):
        return tree.value(reference)
    from omegaconf.errors import OmegaConfBaseException
    from omegaconf.grammar_visitor import GrammarVisitor

    visitor = GrammarVisitor(
        node_interpolation_callback=lambda key, _: reference(key if isinstance(key, str) else key.raw),
        resolver_interpolation_callback=lambda *, name, args, args_str: function(name, args),
        memo=None,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # an empty argument, which OmegaConf deprecates
            return visitor.visit(tree)
    except UserWarning:
        raise ExpressionError("an argument is empty; write '' for an empty text") from None
    except (OmegaConfBaseException, AssertionError, RecursionError, TypeError, ValueError) as error:
        raise ExpressionError(_first_line(error)) from None


def escape(text: str) -> str:
    """Write a text so that reading it as a config's text gives it back."""
    return _BEFORE_DOLLAR.sub(lambda match: match[1] * 2 + r"\${", text)


def _plain_text(text: str) -> PlainText | None:
    pieces = list(_PLAIN_PIECE.finditer(text))
    if "".join(piece[0] for piece in pieces) != text:
        return None
    return PlainText(tuple((piece[1] or "", piece[2] or "") for piece in pieces))


def _parse(text: str, rule: str, mode: str) -> Any:
    from omegaconf.errors import GrammarParseError
    from omegaconf.grammar_parser import parse

    if _nesting(text) > _DEEPEST:
        raise ExpressionError(f"interpolations are nested deeper than {_DEEPEST} levels")
    try:
        return parse(text, parser_rule=rule, lexer_mode=mode)
    except (GrammarParseError, RecursionError) as error:
        message = f"is no interpolation that can be read: {_first_line(error)}"
        raise ExpressionError(message, r"${KEY} or ${FUNCTION:ARGUMENTS}, or \${ for a plain ${") from None
    except Exception as error:
        if str(error) != "Empty Stack":  # what OmegaConf's lexer raises, sometimes, for a stray bracket
            raise
        raise ExpressionError("a bracket is closed that was never opened") from None


def _nesting(text: str) -> int:
    """A bound on how deep the grammar nests in this text."""
    deepest = level = 0
    for character in text:
        if character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level = max(0, level - 1)
    return deepest


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
