"""``pipeline sweep``: the runs of all combinations of some values."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.output import CONFIG_ERROR, FAILED, say, shown_errors

if TYPE_CHECKING:
    from pipeline.cli.jobs import Ended
    from pipeline.cli.members import Member
    from pipeline.runs.listing import RunRow

_STOPPED = 75


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--grid",
    "grid",
    multiple=True,
    required=True,
    metavar="KEY=V,..",
    help="Values of a key: optimizer.lr=0.1,0.01 or seed=0..4 (0 and 4 included).",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs at the same time."
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key in all runs.")
@click.option("--unset", "unsets", multiple=True, metavar="KEY", help="Take a key or table out of all runs.")
@click.option("--runs-dir", type=click.Path(path_type=Path), default="runs", show_default=True)
@click.option("--nproc", type=click.IntRange(min=1), help="Processes of each run.")
def command(
    config: Path,
    grid: tuple[str, ...],
    jobs: int,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    runs_dir: Path,
    nproc: int | None,
) -> None:
    """Run CONFIG with every combination of the --grid values, each as an ordinary run.

    A run that is complete already is not run again, and an unfinished one is gone on with: the same
    command can be repeated until all are done. All combinations are checked before the first begins.

    Exit status: 0 all done, 1 some failed, 2 wrong config or usage, 75 stopped by a signal.
    """
    if "RANK" in os.environ:
        raise click.UsageError("sweep starts processes of its own; call it without a launcher")
    with shown_errors(CONFIG_ERROR):
        from pipeline.cli.grid import read_grid
        from pipeline.cli.members import load_members, rows_of

        members = load_members(config, read_grid(grid), sets, unsets)
        rows = rows_of(members, runs_dir)
        options = [*_repeated("--set", sets), *_repeated("--unset", unsets)]
        if nproc is not None:
            options += ["--nproc", str(nproc)]
        base = [sys.executable, "-m", "pipeline", "run", str(config), *options, "--runs-dir", str(runs_dir)]
        status = _run_all(members, rows, base, jobs, nproc or 1)
        _show(members, runs_dir)
    sys.exit(status)


def _run_all(
    members: Sequence[Member], rows: Sequence[RunRow | None], base: Sequence[str], jobs: int, nproc: int
) -> int:
    """Run what is not complete; returns the exit status of the sweep."""
    from pipeline.cli.jobs import Jobs

    left = [index for index, row in enumerate(rows) if row is None or row.status != "completed"]
    for index in sorted(set(range(len(members))) - set(left)):
        say(f"{_counted(index, members)}: complete already")
    pool = Jobs(jobs, _environment(jobs, nproc))
    commands = [[*base, *_own_options(members[index], rows[index])] for index in left]
    statuses = []
    for at, ended in pool.run(commands, started=lambda at: say(f"{_counted(left[at], members)}: started")):
        statuses.append(ended.status)
        say(f"{_counted(left[at], members)}: {_how(ended)}")
    if pool.received is not None:
        say("stopped by a signal; the same command goes on")
        return _STOPPED
    return FAILED if any(statuses) else 0


def _own_options(member: Member, row: RunRow | None) -> list[str]:
    """What makes this member's run: its values, and the run to go on with."""
    resume = [] if row is None else ["--resume", str(row.folder.path.absolute())]
    return [*_repeated("--set", member.varied), *resume]


def _environment(jobs: int, nproc: int) -> dict[str, str]:
    """Runs at the same time share the cores, unless the user has said how many threads each is to have."""
    environment = dict(os.environ)
    if jobs > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // (jobs * nproc))))
    return environment


def _repeated(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _counted(index: int, members: Sequence[Member]) -> str:
    return f"[{index + 1}/{len(members)}] {members[index].label}"


def _how(ended: Ended) -> str:
    if ended.status is None:
        return "not started"
    if ended.status == 0:
        return "done"
    if ended.status == _STOPPED:
        return "stopped"
    how = (
        f"failed with exit status {ended.status}" if ended.status > 0 else f"killed by signal {-ended.status}"
    )
    return f"{how}\n{ended.tail}" if ended.tail else how


def _show(members: Sequence[Member], runs_dir: Path) -> None:
    """The table of the sweep's runs, as ``pipeline runs`` has it, on standard output."""
    from pipeline.cli.members import rows_of
    from pipeline.cli.results import print_table
    from pipeline.cli.runs_table import runs_table

    found = [row for row in rows_of(members, runs_dir) if row is not None]
    if found:
        print_table(*runs_table(found, for_people=True))
