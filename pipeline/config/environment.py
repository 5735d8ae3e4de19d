"""Values from environment variables: read like --set's, and never written in the clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from pipeline.api.period import Period
from pipeline.config.draft import Draft
from pipeline.config.expression import escape
from pipeline.config.keys import KeyPath, copied, find, find_dotted, under, walk
from pipeline.config.overrides import read_value
from pipeline.config.plan import CheckedTable


def check_reading_environment(
    draft: Draft,
    path: KeyPath,
    table: Mapping[str, Any],
    check: Callable[[Mapping[str, Any]], CheckedTable],
) -> CheckedTable:
    """Validate a table, reading whole-value ``${oc.env:X}`` as TOML where text is not what fits.

    The text comes first: it is only where the schema refuses it that it is read as TOML.
    """
    checked = check(table)
    refused = [fault.path for fault in checked.faults if fault.path]
    again = copied(table)
    changed = False
    for whole in draft.interpolated.whole:
        inside = whole[len(path) :]
        if not under(whole, path) or not any(under(inside, fault) for fault in refused):
            continue
        holder = find(again, inside[:-1])
        if holder is not None and inside[-1] in (holder if isinstance(holder, dict) else range(len(holder))):
            text = holder[inside[-1]]
            holder[inside[-1]] = read_as_toml(text)
            changed |= holder[inside[-1]] != text
    return check(again) if changed else checked


def read_as_toml(text: str) -> Any:
    """A text as ``--set`` reads VALUE; what cannot be read so stays the text it is."""
    try:
        return read_value(text)
    except (ValueError, RecursionError):
        return text


def writable(draft: Draft, path: KeyPath, checked: CheckedTable) -> dict[str, Any]:
    """A component's arguments as they may be written: text from the environment as its interpolation.

    Numbers, booleans, durations and enumerated choices are written as they are; so is all else.
    What the schema marks secret becomes an interpolation too.
    """
    plain = {name: escaped(value) for name, value in checked.plain.items()}
    environment = draft.interpolated.environment
    for variable, written in environment.items():
        inside = variable[len(path) :]
        if not under(variable, path) or not inside or inside[0] not in plain:
            continue
        value = find(plain, inside)
        if value is None:  # the schema changed the shape: the argument goes back as it was written
            plain[str(inside[0])] = copied(find(draft.written, (*path, inside[0])))
        elif _holds_text(value) and not _is_choice(find(checked.arguments, inside)):
            find(plain, inside[:-1])[inside[-1]] = written
    for name in checked.secrets:
        secret = find_dotted(plain, name)
        if secret is None:
            continue
        key = (*path, *secret)
        if find(draft.written, key) is None:
            del find(plain, secret[:-1])[secret[-1]]  # a default
        elif not any(under(variable, key) for variable in environment):
            find(plain, secret[:-1])[secret[-1]] = f"${{oc.env:{secret_variable(key)}}}"
    return plain


def _is_choice(value: Any) -> bool:
    return isinstance(value, Enum | timedelta | Period)


def _holds_text(value: Any) -> bool:
    return isinstance(value, str) or any(isinstance(child, str) for _, child in walk(value))


def secret_variable(path: KeyPath) -> str:
    """The environment variable that stands for a secret that was written in the clear."""
    return "_".join(str(part) for part in path).upper().replace("-", "_")


def escaped(value: Any) -> Any:
    """The value with every text such that interpolation gives it back."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {key: escaped(child) for key, child in value.items() if child is not None}
    if isinstance(value, list | tuple):
        return [escaped(child) for child in value]
    return value
