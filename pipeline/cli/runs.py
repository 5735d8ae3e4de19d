"""``pipeline runs``: the table of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.output import CONFIG_ERROR, shown_errors
from pipeline.cli.results import print_csv, print_json, print_table
from pipeline.cli.runs_table import BROKEN, runs_table
from pipeline.engine.collector import collector_at_rest

if TYPE_CHECKING:
    from pipeline.runs.listing import RunRow

RUNNING = "running"
_WATCH_SECONDS = 2.0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--runs-dir", type=click.Path(path_type=Path), default="runs", show_default=True)
@click.option("--where", "where", metavar="EXPR", help="Only these, as 'optimizer.lr < 0.1 and steps > 100'.")
@click.option("--sort", "sort", metavar="KEY", help="By this key, smallest first; -KEY: largest first.")
@click.option("--limit", type=click.IntRange(min=1), help="The first so many when sorted, else the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the whole config of each run.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--watch", is_flag=True, help="Show it again as it changes, while one of them is running.")
@click.option("--tree", is_flag=True, help="Show which was started from which, and what that changed.")
def command(
    runs_dir: Path,
    where: str | None,
    sort: str | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    watch: bool,
    tree: bool,
) -> None:
    """Show the runs, the newest last, with the config keys that are not the same in all of them.

    A KEY is a config key (optimizer.lr), a metric (eval/accuracy), or one of run, name, status, steps,
    seconds, created, world_size and best.

    Exit status: 0 shown, broken folders too; 2 wrong usage.
    """
    if as_json + as_csv + tree + watch > 1:
        raise click.UsageError("--json, --csv, --tree and --watch cannot be given together")
    with shown_errors(CONFIG_ERROR):
        from pipeline.runs.listing import list_runs

        def read() -> list[RunRow]:
            return _limited(_sorted(_chosen(list_runs(runs_dir), where), sort), limit, newest=sort is None)

        with collector_at_rest():  # with thousands of runs it would take half of the time
            rows = read()
            goes_on = watch and any(row.status == RUNNING for row in rows)
            if as_json:
                print_json([_document(row) for row in rows])
            elif as_csv:
                print_csv(*runs_table(rows, for_people=False))
            elif tree and rows:
                from pipeline.cli.lineage import forest
                from pipeline.cli.tree import draw

                draw(forest(rows))
            elif rows and not goes_on:
                print_table(*runs_table(rows, for_people=True))
            elif not rows:
                click.echo(f"no runs in {runs_dir}" + (" that --where means" if where else ""), err=True)
            del rows  # before the collector works again: it would go through all of them once
        if goes_on:
            from pipeline.cli.following import follow

            follow(lambda: _table_and_more(read()), _WATCH_SECONDS)


def _table_and_more(rows: Sequence[RunRow]) -> tuple[tuple[list[str], list[list[Any]]] | None, bool]:
    """The table, and whether one of its runs goes on."""
    return (
        runs_table(rows, for_people=True) if rows else None,
        any(row.status == RUNNING for row in rows),
    )


def flat_table(row: RunRow) -> Mapping[str, Any]:
    """All that is known of a run under one name each: its fields, its metrics, its config keys."""
    run = row.summary
    fields = {
        "run": row.folder.name,
        "name": row.name,
        "status": row.status or BROKEN,
        "steps": row.steps,
        "seconds": row.seconds,
        "created": row.created.isoformat(),
        "world_size": run.world_size if run else None,
        "best": run.best_value if run else None,
    }
    known = {key: value for key, value in fields.items() if value is not None}
    return {**row.config, **row.metrics, **known}


def _chosen(rows: list[RunRow], where: str | None) -> list[RunRow]:
    if where is None:
        return rows
    from pipeline.cli.where import read_where, where_error

    meant = read_where(where)
    tables = [flat_table(row) for row in rows]
    for key, column in meant.keys:
        if rows and not any(key in table for table in tables):
            raise where_error(where, column, f"no run has {key!r}{_hint(key, tables)}")
    return [row for row, table in zip(rows, tables, strict=True) if meant.test(table)]


def _sorted(rows: list[RunRow], sort: str | None) -> list[RunRow]:
    """By a key; runs that lack it, or have NaN there, come last."""
    from pipeline.errors import RunError

    if sort is None or not rows:
        return rows
    key = sort.removeprefix("-")
    tables = [flat_table(row) for row in rows]
    if not any(key in table for table in tables):
        raise RunError(f"--sort: no run has {key!r}{_hint(key, tables)}")
    have, lack = [], []
    for row, table in zip(rows, tables, strict=True):
        value = table.get(key)
        if value is None or value != value:  # noqa: PLR0124 -- NaN has no rank
            lack.append(row)
        else:
            is_number = isinstance(value, int | float)
            have.append(((not is_number, value if is_number else str(value)), row))
    have.sort(key=lambda ranked: ranked[0], reverse=sort.startswith("-"))
    return [row for _, row in have] + lack


def _hint(key: str, tables: Sequence[Mapping[str, Any]]) -> str:
    from pipeline.config.wording import nearest

    near = nearest(key, dict.fromkeys(name for table in tables for name in table), most=None)
    return f"; did you mean {near!r}?" if near else ""


def _limited(rows: list[RunRow], limit: int | None, *, newest: bool) -> list[RunRow]:
    if limit is None:
        return rows
    return rows[-limit:] if newest else rows[:limit]


def _document(row: RunRow) -> dict[str, Any]:
    """A run as JSON; keys are always there, null where nothing is known."""
    run = row.summary
    return {
        "run": row.folder.name,
        "folder": str(row.folder.path),
        "name": row.name,
        "status": row.status or BROKEN,
        "reason": run.reason if run else None,
        "created": row.created.isoformat(),
        "steps": row.steps,
        "seconds": row.seconds,
        "world_size": run.world_size if run else None,
        "metrics": row.metrics,
        "parent": {"run": run.parent_run, "checkpoint": run.parent_checkpoint}
        if run and run.parent_run
        else None,
        "best": {"metric": run.best_metric, "value": run.best_value, "step": run.best_step}
        if run and run.best_metric
        else None,
        "config": row.config,
        "problem": row.problem or None,
    }
