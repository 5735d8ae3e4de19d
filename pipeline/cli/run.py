"""``pipeline run``: train."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from pipeline.cli.choice import RefusedError
from pipeline.cli.launch import launch, without_nproc
from pipeline.cli.output import (
    is_main_rank,
    leave_with,
    let_rank_0_speak,
    say,
    shown_errors,
    status_of,
    tell_launcher,
)
from pipeline.engine.signals import STOPPED, EarlyStop, Signals
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pipeline.cli.attempt import Ended
    from pipeline.cli.loading import Loaded

_NEWEST = ""  # --resume without a value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is TOML or text.")
@click.option("--unset", "unsets", multiple=True, metavar="KEY", help="Take a key or table out.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=_NEWEST,
    metavar="[RUN]",
    help="Go on with a run; without RUN, the newest of this experiment, or a new one.",
)
@click.option("--accept-changes", is_flag=True, help="Resume although the config has changed.")
@click.option(
    "--from", "parent", metavar="RUN[@CHECKPOINT]", help="Start from another run's config (and weights)."
)
@click.option("--runs-dir", type=click.Path(path_type=Path), default="runs", show_default=True)
@click.option("--name", help="The run's name, in place of the config's.")
@click.option("--nproc", type=click.IntRange(min=1), help="Start so many processes on this machine.")
def command(
    config: Path | None,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    resume: str | None,
    accept_changes: bool,
    parent: str | None,
    runs_dir: Path,
    name: str | None,
    nproc: int | None,
) -> None:
    """Train what CONFIG describes.

    Exit status: 0 done, 1 failed, 2 wrong config or usage, 75 stopped by a signal and resumable.
    """
    if resume and config is None and Path(resume).suffix == ".toml" and Path(resume).is_file():
        config, resume = Path(resume), _NEWEST  # click took the config for the option's value
    _check_usage(config, resume, parent, nproc)
    signals = Signals()
    signals.install(("TERM", "INT"))  # before torch is imported, which takes seconds
    with shown_errors(), _stopped_early():
        loaded = _load(signals, _config_path(config, resume, parent, runs_dir), sets, unsets, name)
        if nproc is not None:
            signals.uninstall()
            plan, rest = loaded.config.plan, without_nproc(sys.argv[1:])
            wish, patience = plan.train.stop_signals, plan.distributed.timeout
            sys.exit(launch(nproc, rest, stop_signals=wish, patience=patience))
        signals.install(loaded.config.plan.train.stop_signals)
        sys.exit(
            _train(
                loaded,
                signals,
                resume=resume is not None,
                resume_run=resume or None,
                parent=parent,
                accept_changes=accept_changes,
                runs_dir=runs_dir,
                named=name is not None,
            )
        )


@contextmanager
def _stopped_early() -> Iterator[None]:
    """Exit with the status of a stopped run where a signal comes before the first step."""
    try:
        yield
    except EarlyStop as stop:
        if is_main_rank():
            say(f"stopped by {stop} before the first step")
        sys.exit(STOPPED)


def _check_usage(config: Path | None, resume: str | None, parent: str | None, nproc: int | None) -> None:
    """Refuse options that do not go together, before anything is read."""
    if config is not None and parent is not None:
        raise click.UsageError(
            "CONFIG and --from cannot be given together: --from takes the run's own config"
        )
    if parent is not None and resume is not None:
        raise click.UsageError("--from begins a new run and --resume goes on with one; give one of them")
    if config is None and parent is None and not resume:
        raise click.UsageError("CONFIG is missing; it may be left out only with --from RUN or --resume RUN")
    if nproc is not None and "RANK" in os.environ:
        raise click.UsageError("--nproc starts processes of its own; leave it out under a launcher")


def _config_path(config: Path | None, resume: str | None, parent: str | None, runs_dir: Path) -> Path:
    """The file to read: the user's, or the one of the run that is gone on with or started from."""
    if config is not None:
        return config
    from pipeline.cli.naming import named_run

    return named_run(runs_dir, (parent or resume or "").partition("@")[0]).config


def _load(
    signals: Signals, path: Path, sets: Sequence[str], unsets: Sequence[str], name: str | None
) -> Loaded:
    from pipeline.cli.loading import load_with_registry

    try:
        with signals.undisguised():
            loaded = load_with_registry(path, sets=sets, unsets=unsets, name=name)
    except PipelineError as error:
        if is_main_rank():
            raise
        _leave_excused(str(error), status_of(error))
    if is_main_rank():
        for warning in (*loaded.registry.warnings, *loaded.config.warnings):
            say(f"warning: {warning}")
    return loaded


def _leave_excused(message: str, status: int) -> NoReturn:
    """Let rank 0 say what is wrong on this other rank; most often it finds the same, and has left."""
    tell_launcher(message)
    try:
        from pipeline.cli.meeting import excuse

        if excuse(message, status):
            let_rank_0_speak()
        else:
            say(message)
    except EarlyStop:  # the launcher ends this rank, since another one has left
        pass
    sys.exit(status)


def _train(loaded: Loaded, signals: Signals, **wishes: Any) -> int:
    """Train, and give the exit status; a rank among several that has failed ends here."""
    from pipeline.cli.attempt import attempt
    from pipeline.cli.ranks import RunFailedError, fail
    from pipeline.cli.wish import Wish

    command = ("pipeline", "run", str(loaded.config.path), *loaded.config.overrides)
    try:
        ended = attempt(loaded, Wish(command=command, **wishes), signals, say)
    except RefusedError as refused:
        leave_with(str(refused), refused.status)
    except RunFailedError as failed:
        fail(failed)
    if ended.result is None:
        return 0
    if ended.leads:
        _summarise(ended)
    return STOPPED if ended.result.stopped_by_signal else 0


def _summarise(ended: Ended) -> None:
    """The last lines: how it ended and where things are."""
    result = ended.result
    assert result is not None
    how = "stopped" if result.stopped_by_signal else "completed"
    why = f" ({result.reason})" if result.reason else ""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
    say(f"{how} after {result.step} steps{why}: {metrics}")
    say(f"run folder: {ended.folder.path}")
    if result.stopped_by_signal:
        say(f"resume with: pipeline run --resume {ended.folder.path}")
