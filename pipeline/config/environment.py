"""Values from environment variables: read like --set's, and never written in the clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pipeline.api.period import Period
from pipeline.config.draft import Draft
from pipeline.config.expression import escape
from pipeline.config.keys import KeyPath, copied, find, under, walk
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
    for variable in draft.variables(path):
        inside = variable[len(path) :]
        if variable not in draft.interpolated.whole or not any(under(inside, fault) for fault in refused):
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

    Numbers, booleans, durations and listed choices are written as they are; so is all else. A
    relative path keeps the folder that it is relative to. What the schema marks secret becomes an
    interpolation too.
    """
    plain = {name: escaped(value) for name, value in checked.plain.items()}
    for variable in draft.variables(path):
        inside = variable[len(path) :]
        if not inside or inside[0] not in plain:
            continue
        value = find(plain, inside)
        if value is None or _is_reordered(checked.arguments, inside):  # the argument goes back as it was
            plain[str(inside[0])] = copied(find(draft.written, (*path, inside[0])))
        elif inside in checked.paths:
            find(plain, inside[:-1])[inside[-1]] = written_path(draft, variable)
        elif inside not in checked.choices and _holds_text(value) and not _is_time(checked, inside):
            find(plain, inside[:-1])[inside[-1]] = draft.interpolated.environment[variable]
    _hide_secrets(draft, path, plain, checked.secrets)
    return plain


def written_path(draft: Draft, path: KeyPath) -> str:
    """A file path, which stands at ``path``, such that it means the same place in any folder."""
    value = str(find(draft.tree, path))
    folder = draft.merged.origin(path).folder
    written = draft.interpolated.environment.get(path)
    if written is None:
        return escape(str(folder / value))
    return written if Path(value).is_absolute() else f"{escape(str(folder))}/{written}"


def _hide_secrets(draft: Draft, path: KeyPath, plain: dict[str, Any], secrets: frozenset[KeyPath]) -> None:
    """Put an interpolation in the place of each secret; one that is a default is left out."""
    for secret in sorted(secrets, key=str, reverse=True):  # from behind, as defaults are taken out
        holds_others = any(other != secret and under(other, secret) for other in secrets)
        if holds_others or find(plain, secret) is None:
            continue
        key = (*path, *secret)
        if find(draft.written, key) is None:
            del find(plain, secret[:-1])[secret[-1]]
        elif not draft.variables(key):
            find(plain, secret[:-1])[secret[-1]] = f"${{oc.env:{secret_variable(key)}}}"


def _is_reordered(arguments: Mapping[str, Any], inside: KeyPath) -> bool:
    """Whether a value stands in a set, where its position is not the one that it was written at."""
    return any(isinstance(find(arguments, inside[:length]), set | frozenset) for length in range(len(inside)))


def _is_time(checked: CheckedTable, inside: KeyPath) -> bool:
    return isinstance(find(checked.arguments, inside), timedelta | Period)


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
