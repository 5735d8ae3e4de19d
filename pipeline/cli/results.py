"""Results on standard output: tables for people, JSON, CSV and Markdown for programs."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.output import CONFIG_ERROR
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from rich.text import Text

NOTHING = "-"
"""Stands in a table for what is not there."""

_WIDE = 100_000  # columns: a value that is cut or broken can neither be read nor copied


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str = "",
    colours: Sequence[str] = (),
) -> None:
    """Print aligned columns, one line a row whatever the terminal's width; NO_COLOR is honoured.

    ``colours`` are those of the first columns, on a terminal.

    The lines are laid out here: rich's own table takes a millisecond for each, and there may be thousands.
    """
    lines = [list(headers), *([text_of(value) for value in row] for row in rows)]
    is_plain = all(map(str.isascii, chain.from_iterable(lines)))
    width_of, padded = (len, str.ljust) if is_plain else (_cells, _padded)
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    head, *body = ["  ".join(map(padded, line, widths)).rstrip() for line in lines]
    if title:
        click.echo(title)
    if not sys.stdout.isatty():  # where nothing can be styled: rich takes long to import
        click.echo("".join(f"{line}\n" for line in (head, *body)), nl=False)
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False, width=_WIDE)
    console.print(head, style="bold")
    if colours and not console.no_color:
        for line in lines[1:]:
            console.print(_coloured(line, widths, colours))
    else:
        click.echo("".join(f"{line}\n" for line in body), nl=False)


def _cells(text: str) -> int:
    """How wide a terminal shows it."""
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _cells(text))


def _coloured(line: Sequence[str], widths: Sequence[int], colours: Sequence[str]) -> Text:
    from rich.text import Text

    text = Text()
    for part, width, colour in zip_longest(line, widths, colours[: len(line)], fillvalue=""):
        text.append(part, style=colour)
        text.append(" " * (int(width) - _cells(part) + 2))
    text.rstrip()
    return text


def print_json(value: Any) -> None:
    """Print one JSON document; as in run.json, numbers that are not finite are strings."""
    click.echo(json.dumps(_json(value), indent=2, ensure_ascii=False, allow_nan=False, default=str))


@contextmanager
def problems_as_json(wanted: bool) -> Iterator[None]:
    """Where JSON is wanted, print the problems of a config as such, and exit."""
    try:
        yield
    except ConfigError as error:
        if not wanted:
            raise
        print_json({"problems": [asdict(problem) for problem in error.problems]})
        sys.exit(CONFIG_ERROR)


def print_csv(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print CSV; what is not there is an empty field, an array is JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows([[_csv(value) for value in row] for row in rows])
    click.echo(text.getvalue(), nl=False)


def print_markdown(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str) -> None:
    """Print a heading and a table in GitHub's Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    table = "\n".join(f"| {' | '.join(_markdown(value) for value in line)} |" for line in lines)
    click.echo(f"### {title}\n\n{table}\n")


def text_of(value: Any) -> str:
    """A value as a table shows it: texts bare, all else as TOML writes it."""
    if value is None:
        return NOTHING
    return value if isinstance(value, str) and value.isprintable() else toml_of(value)


def toml_of(value: Any) -> str:
    """A value as it stands in a TOML file, on one line."""
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):  # before what takes long to tell: there may be thousands
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {toml_of(child)}' for key, child in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_of, value))}]"
    return str(value)


def rounded(value: Any) -> Any:
    """A measured number to 6 digits; all else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else value


def duration_of(seconds: float | None) -> str | None:
    """Seconds as people say them: ``3.2 s``, ``4 min 10 s``, ``2 h 5 min``."""
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _json(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_json(child) for child in value]
    return value


def _csv(value: Any) -> Any:
    if isinstance(value, bool | list | tuple | Mapping):
        return json.dumps(_json(value), ensure_ascii=False, default=str)
    return value


def _markdown(value: Any) -> str:
    return text_of(value).replace("\\", "\\\\").replace("|", "\\|")
