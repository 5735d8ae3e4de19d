"""``pipeline diff``: what was different between two or more runs or configs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.output import CONFIG_ERROR, shown_errors
from pipeline.cli.results import (
    NOTHING,
    print_json,
    print_markdown,
    print_table,
    rounded,
    text_of,
    toml_of,
)

if TYPE_CHECKING:
    from pipeline.cli.difference import Difference, Row

DIFFERENT = 1
_COLOURS = ("", "red", "green")  # of the key, the first and the second side
_MOST = 4  # columns of two sides: more have no before and after
_SECTIONS = ("config", "components", "code", "environment", "result")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sides", nargs=-1, required=True, metavar="A B ...")
@click.option("--runs-dir", type=click.Path(path_type=Path), default="runs", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
def command(sides: tuple[str, ...], runs_dir: Path, as_json: bool, markdown: bool) -> None:
    """Show what was different between A and B: each a run's name, a run folder, or a TOML file.

    Results and times are shown, but make no difference; nor do a run's name, and the places of local files.

    Exit status: 0 the same, 1 different, 2 trouble.
    """
    if len(sides) < 2:
        raise click.UsageError("give at least two to compare")
    if as_json and markdown:
        raise click.UsageError("--json and --markdown cannot be given together")
    with shown_errors(CONFIG_ERROR):
        from pipeline.cli.difference import compare
        from pipeline.cli.side import read_side

        difference = compare([read_side(ref, runs_dir) for ref in sides])
        if as_json:
            print_json(_document(difference))
        else:
            _show(difference, markdown=markdown)
        sys.exit(0 if difference.same else DIFFERENT)


def _document(difference: Difference) -> dict[str, Any]:
    return {
        "labels": difference.labels,
        "same": difference.same,
        **{
            section: [
                {"key": row.key, "values": row.values, "percent": row.percent, "follows": row.follows}
                for row in getattr(difference, section)
            ]
            for section in _SECTIONS
        },
        "texts": {text.name: text.lines for text in difference.texts},
        "not_compared": difference.not_compared,
        "notes": difference.notes,
    }


def _show(difference: Difference, *, markdown: bool) -> None:
    for section in _SECTIONS:
        lines = list(_lines(section, difference))
        if not lines:
            continue
        has_change = section == "result" and len(difference.labels) == 2
        headers = ["key", *difference.labels, *(["change"] if has_change else [])]
        if markdown:
            print_markdown(headers, lines, title=section)
        else:
            print_table(headers, lines, title=section, colours=_COLOURS if len(headers) <= _MOST else ())
            click.echo()
    for text in difference.texts:
        click.echo(f"```diff\n--- {text.name}" if markdown else text.name)
        click.echo("\n".join(text.lines))
        click.echo("```\n" if markdown else "")
    for note in difference.notes:
        click.echo(f"note: {note}")
    if difference.same:
        click.echo("no difference; results and times do not count")


def _lines(section: str, difference: Difference) -> Iterator[list[Any]]:
    from pipeline.cli.difference import NOT_COMPARED

    rows: tuple[Row, ...] = getattr(difference, section)
    for row in rows:
        if section == "result":
            change = [_change(row)] if len(difference.labels) == 2 else []
            yield [row.key, *map(rounded, row.values), *change]
        else:
            write = toml_of if section == "config" else text_of
            key = f"{row.key} (follows {row.follows})" if row.follows else row.key
            yield [key, *(NOTHING if value is None else write(value) for value in row.values)]
    if section == "config":
        for key in difference.not_compared:
            yield [key, *[NOT_COMPARED for _ in difference.labels]]


def _change(row: Row) -> str:
    return f"{row.percent:+.3g} %" if row.percent else ""
