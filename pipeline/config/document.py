"""Reading one TOML file: its values, and the place of every key."""

from __future__ import annotations

import ast
import errno
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.config.keys import KeyPath, children
from pipeline.config.plan import Place
from pipeline.config.positions import key_places
from pipeline.errors import ConfigError, Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")

_NAMES = re.compile(r"\((?:'[^']*'|\"[^\"]*\")(?:, (?:'[^']*'|\"[^\"]*\"))*,?\)")
"""A key, as the parser's messages have it: ``('a', 'b')``."""


@dataclass(frozen=True)
class Document:
    """One TOML file, read."""

    path: Path
    """As the user named it."""
    text: bytes
    tree: Mapping[str, Any]
    places: Mapping[KeyPath, Place]

    @property
    def folder(self) -> Path:
        """What relative paths in the file are relative to, absolute."""
        return self.path.absolute().parent


def read_document(path: Path) -> Document:
    """Read a TOML file.

    Raises:
        ConfigError: if it cannot be read as one, with the line and column where that is known.
    """
    data = _read(path)
    text = _decode(path, data)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from None
    except RecursionError:
        raise _refusal(path, f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:  # an integer of thousands of digits, which Python refuses
        raise _refusal(path, "cannot be read: a number has too many digits") from None
    if depth(tree) > MAX_DEPTH:
        raise _refusal(path, f"is nested deeper than {MAX_DEPTH} levels")
    places = key_places(data.replace(b"\r\n", b"\n"), str(path))
    return Document(path, data, tree, places)


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: if it cannot be opened, or is a pipe or a device, which could be waited for for ever and
            gives its text to one process alone.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a pipe or a device; save what it gives as a file", str(path))
    return path.open("rb")


def unusable_keys(tree: Any) -> Iterator[tuple[KeyPath, str, str]]:
    """What TOML allows and a config does not: (path, message, expected) for each."""
    stack: list[tuple[KeyPath, Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        key = path[-1] if path else 0
        if isinstance(key, str) and (not key or "." in key or not key.isprintable()):
            yield path, f"{key!r} is no usable key", "a name without a dot, as keys are written with dots"
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            yield path, "the integer does not fit in 64 bits", "an integer in -2**63..2**63-1"
        elif isinstance(value, str) and not _is_unicode(value):
            yield path, "the text is not valid Unicode", "UTF-8"
        else:
            stack.extend(((*path, part), child) for part, child in children(value))


def depth(tree: Any) -> int:
    """How deep tables and arrays are nested."""
    deepest, level = 0, [tree]
    while level := [child for value in level for _, child in children(value)]:
        deepest += 1
    return deepest


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise _refusal(path, "is a folder", "a TOML file")
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refusal(path, "there is no such file", "the path of a TOML file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _refusal(path, f"cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise _refusal(path, "is larger than 1 MiB", "a config; data belongs into files of its own")
    if not data.strip():
        raise _refusal(path, "the file is empty", "a config with at least model, dataset.train, train")
    return data


def _decode(path: Path, data: bytes) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise _refusal(path, "begins with a byte-order mark", "UTF-8 without one", Place(str(path), 1, 1))
    nul = data.find(b"\0")
    if nul >= 0:
        raise _refusal(path, "holds a NUL byte", "text", _place_at(path, data[:nul]))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        place = _place_at(path, data[: error.start])
        raise _refusal(path, f"byte 0x{data[error.start]:02x} is not UTF-8", "UTF-8", place) from None


def _place_at(path: Path, before: bytes) -> Place:
    line = before.rpartition(b"\n")[2].decode(errors="replace")
    return Place(str(path), before.count(b"\n") + 1, len(line) + 1)


def _syntax_error(path: Path, text: str, message: str) -> ConfigError:
    at = _AT.search(message)
    if at and at[1]:
        place = Place(str(path), int(at[1]), int(at[2]))
    else:
        place = _place_at(path, text.rstrip().encode())
    what = _NAMES.sub(lambda names: ".".join(ast.literal_eval(names[0])), _AT.sub("", message))
    if at and not at[1]:
        what += " at the end of the file"
    return _refusal(path, f"invalid TOML: {what[:1].lower()}{what[1:]}", place=place)


def _refusal(path: Path, message: str, expected: str = "", place: Place | None = None) -> ConfigError:
    return ConfigError([Problem(str(place or path), "", message, expected)])
