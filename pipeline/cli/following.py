"""A table that is shown again while what it shows goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from pipeline.cli.results import print_table

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]


def follow(read: Callable[[], tuple[Table | None, bool]], seconds: float) -> None:
    """Show a table whenever it has changed, until it is said to be the last, or Ctrl-C.

    On a terminal it takes the place of the one before; elsewhere it comes after it.

    Args:
        read: gives the table, None where there is nothing to show, and whether more may come.
    """
    is_terminal = sys.stdout.isatty()
    shown: Table | None = None
    goes_on = True
    try:
        while goes_on:
            table, goes_on = read()
            if table is not None and table != shown:
                if is_terminal:
                    click.clear()
                elif shown is not None:
                    click.echo()
                print_table(*table)
                shown = table
            if goes_on:
                time.sleep(seconds)
    except KeyboardInterrupt:
        click.echo(err=True)  # the prompt is to stand on a line of its own
