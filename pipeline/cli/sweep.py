"""``pipeline sweep``: the runs of all combinations of some values, or of those that Optuna chooses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.output import CONFIG_ERROR, FAILED, say, shown_errors
from pipeline.engine.signals import STOPPED

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from pipeline.cli.children import Children
    from pipeline.cli.jobs import Job, Jobs
    from pipeline.cli.members import Member
    from pipeline.runs.listing import RunRow


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--grid",
    "grid",
    multiple=True,
    metavar="KEY=V,..",
    help="Values of a key: optimizer.lr=0.1,0.01 or seed=0..4 (0 and 4 included).",
)
@click.option(
    "--optuna",
    "trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Let Optuna choose the values of N runs.",
)
@click.option(
    "--search",
    "search",
    multiple=True,
    metavar="KEY=SPACE",
    help="What Optuna may choose: log(LOW, HIGH), float(LOW, HIGH), int(LOW, HIGH), or values V,..",
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
    trials: int | None,
    search: tuple[str, ...],
    jobs: int,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    runs_dir: Path,
    nproc: int | None,
) -> None:
    """Run CONFIG with every combination of the --grid values, each as an ordinary run.

    With --optuna N, Optuna chooses the values of N runs from the --search spaces, to better the metric
    that hooks.checkpoint monitors; a run's value is its best. The study is kept in RUNS_DIR/sweeps.

    A run that is complete already is not run again, and an unfinished one is gone on with: the same
    command can be repeated until all are done. A trial of Optuna's that failed is not tried again. All
    values are checked before the first run begins.

    Exit status: 0 all done, 1 some failed, 2 wrong config or usage, 75 stopped by a signal.
    """
    _check_usage(grid, trials, search)
    with shown_errors(CONFIG_ERROR):
        from pipeline.cli.children import Children
        from pipeline.cli.jobs import Jobs

        children = Children(config, sets, unsets, runs_dir, nproc)
        pool = Jobs(jobs, _environment(jobs, nproc or 1))
        if trials is None:
            failed = _run_grid(grid, children, pool)
        else:
            failed = _run_trials(search, trials, children, pool)
    if pool.received is not None:
        say("stopped by a signal; the same command goes on")
        sys.exit(STOPPED)
    sys.exit(FAILED if failed else 0)


def _check_usage(grid: Sequence[str], trials: int | None, search: Sequence[str]) -> None:
    """Refuse options that do not go together, before anything is read."""
    if "RANK" in os.environ:
        raise click.UsageError("sweep starts processes of its own; call it without a launcher")
    if trials is None and search:
        raise click.UsageError("--search is for Optuna: say how many runs, as --optuna 20")
    if trials is None and not grid:
        raise click.UsageError("nothing to vary: give --grid KEY=V,.. or --optuna N with --search KEY=SPACE")
    if trials is not None and grid:
        raise click.UsageError(
            "--optuna chooses from --search: write --search KEY=V,.. in the place of --grid"
        )
    if trials is not None and not search:
        raise click.UsageError(
            "--optuna has nothing to choose: give --search KEY=SPACE, as 'optimizer.lr=log(1e-4, 1e-1)'"
        )


def _run_grid(grid: Sequence[str], children: Children, pool: Jobs) -> int:
    """Run the combinations that are not complete; returns how many failed."""
    from pipeline.cli.grid import read_grid
    from pipeline.cli.members import load_members, rows_of, whole
    from pipeline.runs.listing import list_runs

    members = load_members(children.config, read_grid(grid), children.sets, children.unsets)
    rows = rows_of(members, whole(list_runs(children.runs_dir)))
    left = [index for index, row in enumerate(rows) if row is None or row.status != "completed"]
    for index in sorted(set(range(len(members))) - set(left)):
        say(f"{_counted(index, members)}: complete already")
    failed = 0

    def work() -> Iterator[Job]:
        for index in left:
            children.refuse_another(members[index])
            yield children.job(members[index], rows[index])

    for at, ended in pool.run(work(), started=lambda at: say(f"{_counted(left[at], members)}: started")):
        failed += ended.is_failure
        say(f"{_counted(left[at], members)}: {ended.how}")
    _show(rows_of(members, whole(list_runs(children.runs_dir))))
    return failed


def _run_trials(texts: Sequence[str], wanted: int, children: Children, pool: Jobs) -> int:
    """Run Optuna's trials until so many are there; returns how many of them have failed."""
    from pipeline.cli.members import rows_of
    from pipeline.cli.optimise import Search, goal_of
    from pipeline.cli.space import read_space
    from pipeline.cli.study import open_study
    from pipeline.runs.listing import list_runs

    space = read_space(texts)
    goal = goal_of(space, children)
    with open_study(goal.folder, space, goal.monitor) as study:
        if study.ended:
            say(f"{goal.folder}: {study.ended} trials are there already")
        search = Search(study, goal, children, wanted)
        search.run(pool)
        _show(rows_of([attempt.member for attempt in search.attempts], list_runs(children.runs_dir)))
        best, failed = study.best, study.failed
    if best is not None:
        told = f"{goal.monitor.metric} {best.value:.6g} with {_values(best)}, run {best.user_attrs['run']}"
        say(f"best of {goal.folder}: {told}")
    for one in failed:
        told = f"run {one.user_attrs['run']}" if "run" in one.user_attrs else "it has no run"
        say(f"[trial {one.number}] {_values(one)}: {one.user_attrs.get('failure', 'failed')}; {told}")
    return len(failed) + search.killed


def _environment(jobs: int, nproc: int) -> dict[str, str]:
    """Runs at the same time share the cores, unless the user has said how many threads each is to have."""
    environment = dict(os.environ)
    if jobs > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // (jobs * nproc))))
    return environment


def _counted(index: int, members: Sequence[Member]) -> str:
    return f"[{index + 1}/{len(members)}] {members[index].label}"


def _values(trial: FrozenTrial) -> str:
    return " ".join(f"{key}={value}" for key, value in trial.params.items())


def _show(rows: Sequence[RunRow | None]) -> None:
    """The table of the sweep's runs, as ``pipeline runs`` has it, on standard output."""
    from pipeline.cli.results import print_table
    from pipeline.cli.runs_table import runs_table

    found = {row.folder.name: row for row in rows if row is not None}
    if found:
        print_table(*runs_table(list(found.values()), for_people=True))
