"""``pipeline report``: one page about some runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.output import CONFIG_ERROR, say, shown_errors

if TYPE_CHECKING:
    from pipeline.runs.listing import RunRow

_REFRESH = 3.0  # seconds


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, metavar="[RUN ...]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
    help="The file to write.",
)
@click.option("--watch", is_flag=True, help="Serve the page on this machine, and keep it up to date.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="With --watch; default: a free one.")
@click.option("--runs-dir", type=click.Path(path_type=Path), default="runs", show_default=True)
def command(runs: tuple[str, ...], output: Path, watch: bool, port: int, runs_dir: Path) -> None:
    """Write one self-contained HTML page: curves, what differs, lineage and environment of the runs.

    Without RUN, of all runs. Nothing in it is loaded from elsewhere; it opens without a server.

    Exit status: 0 written, 2 trouble.
    """
    with shown_errors(CONFIG_ERROR):
        from pipeline.runs.listing import find_run, list_runs, read_row

        def rows() -> list[RunRow]:
            return [read_row(find_run(runs_dir, one)) for one in runs] if runs else list_runs(runs_dir)

        found = rows()
        if not found and not watch:
            from pipeline.errors import RunError

            raise RunError(f"no runs in {runs_dir}; name another folder with --runs-dir")
        if watch:
            from pipeline.cli.report_server import serve

            serve(rows, port, _REFRESH, lambda address: say(f"serving {address} until Ctrl-C"))
            return
        _write(output, found)
        click.echo(output)


def _write(output: Path, rows: list[RunRow]) -> None:
    from pipeline.cli.report_page import page
    from pipeline.errors import RunError
    from pipeline.runs.files import reason, write_atomic

    content = page(rows, output.parent).encode()
    try:
        write_atomic(output, content)
    except OSError as error:
        raise RunError(f"{output}: cannot be written: {reason(error)}; name another file with -o") from error
