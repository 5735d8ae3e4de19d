"""What ``evaluate`` and ``predict`` share: a checkpoint of a run, and all ranks at work on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipeline.cli.choice import RefusedError, await_choice, require_same, tell_choice
from pipeline.cli.output import is_main_rank, leave_with, say, shown_errors
from pipeline.config.wording import nearest
from pipeline.errors import CheckpointError, ConfigError, Problem

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

    from pipeline.cli.loading import Loaded
    from pipeline.engine.failure import Failure
    from pipeline.engine.offline import Bench
    from pipeline.engine.world import World
    from pipeline.runs.checkpoints import Checkpoint
    from pipeline.runs.layout import RunFolder

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("run"),
    click.option(
        "--checkpoint",
        metavar="best|last|NAME",
        help="Which one; default: best if the run has one, else last.",
    ),
    click.option(
        "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is TOML or text."
    ),
    click.option("--unset", "unsets", multiple=True, metavar="KEY", help="Take a key or table out."),
    click.option(
        "--runs-dir",
        type=click.Path(path_type=Path),
        default="runs",
        show_default=True,
    ),
    click.option("--nproc", type=click.IntRange(min=1), help="Start so many processes on this machine."),
)


def checkpoint_options(command: Command) -> Command:
    """Give a command the argument RUN and the options that say which checkpoint, and where."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Subject:
    """A run whose checkpoint is worked with, and the config in force."""

    folder: RunFolder
    loaded: Loaded
    wish: str | None
    """The checkpoint as the user named it; None: the best, or else the last."""


def find_subject(
    run: str, wish: str | None, runs_dir: Path, sets: Sequence[str], unsets: Sequence[str]
) -> Subject:
    """The run that is meant, its own config with the overrides.

    Raises:
        RunError: if there is no such run; it names the nearest.
        ConfigError: if the config is at fault.
    """
    from pipeline.cli.changed_code import changed_files
    from pipeline.cli.loading import load_with_registry
    from pipeline.runs.listing import find_run
    from pipeline.runs.record import read

    folder = find_run(runs_dir, run)
    loaded = load_with_registry(folder.config, sets=sets, unsets=unsets)
    if is_main_rank():
        changed = changed_files(read(folder), loaded)
        for warning in (*loaded.registry.warnings, *loaded.config.warnings, *changed):
            say(f"warning: {warning}")
    return Subject(folder, loaded, wish)


def refuse_nproc_under_launcher(nproc: int | None) -> None:
    """Raises: click.UsageError: if processes are to be started by one that a launcher has started."""
    if nproc is not None and "RANK" in os.environ:
        raise click.UsageError("--nproc starts processes of its own; leave it out under a launcher")


def choose_checkpoint(subject: Subject) -> Checkpoint:
    """The checkpoint that is meant; whether it is sound is another question.

    Raises:
        ConfigError: if there is none; it names the nearest.
    """
    from pipeline.runs.checkpoints import Checkpoints

    store = Checkpoints(subject.folder.checkpoints)
    names = [one.name for one in store.checkpoints()]
    best = store.pointer("best")
    if best is not None and store.at(best).name in names:
        names.insert(0, "best")
    if names:
        names.insert(0, "last")
    wish = subject.wish or ("best" if "best" in names else "last")
    if wish not in names:
        near = nearest(wish, names, cutoff=0.5)
        message = f"{subject.folder.name} has no such checkpoint"
        expected = f"one of {', '.join(names)}" if names else "a run that has written one"
        raise ConfigError([Problem("--checkpoint", wish, message, expected, near)])
    try:
        return store.resolve(wish)
    except CheckpointError as error:  # such as a symbolic link in its place
        raise ConfigError([Problem("--checkpoint", wish, str(error))]) from error


def at_work(
    subject: Subject, compute: Callable[[Bench], T], *, prepare: Callable[[], None] | None = None
) -> T:
    """Bring the checkpoint to all ranks and compute; every rank calls it.

    The checkpoint is chosen and read by rank 0 alone, so that all work with the same one although the
    run may be going on. Nothing is written into the run's folder.

    Args:
        prepare: called on rank 0 before anything is read.

    Raises:
        ConfigError, RunError, CheckpointError: before anything is built; RefusedError on other ranks.
        RunFailedError: from then on, whatever it was.
    """
    from pipeline.cli.experiment import bind_experiment
    from pipeline.cli.ranks import blamed, joined
    from pipeline.engine.checkpoint import Checkpoint
    from pipeline.engine.group import launcher_store
    from pipeline.engine.offline import Bench
    from pipeline.engine.position import Position
    from pipeline.engine.signals import Signals
    from pipeline.engine.world import World, choose_threads, torch_switches

    plan = subject.loaded.config.plan
    world = World.from_environment(plan.distributed)
    threads, _ = choose_threads(plan.distributed, world.local_world_size)
    store = launcher_store(plan.distributed.timeout) if world.world_size > 1 else None
    name, files = _choice(subject, world, store, prepare)
    experiment = bind_experiment(plan, subject.loaded.registry, _seed(subject))
    position = Position()
    signals = Signals()  # not installed: there is nothing to save, and the default handlers end the work
    with (
        torch_switches(threads=threads, deterministic=plan.train.deterministic),
        joined(
            plan.distributed,
            world,
            store,
            signals,
            _unrecorded,
            position=position,
            parts=experiment.parts(),
            log=say if world.is_main else lambda line: None,
        ) as ranks,
        blamed(experiment.parts(), world, position, ranks, signals, subject.loaded.config.hidden),
        redirect_stdout(sys.stderr),  # standard output is for the result, whatever components print
    ):
        checkpoint = Checkpoint.from_files(name, *ranks.group.broadcast(files))
        return compute(Bench(experiment, checkpoint, world, ranks.group, position))


@contextmanager
def shown_failures() -> Iterator[None]:
    """Turn whatever ``at_work`` raises into a message and an exit status."""
    from pipeline.cli.ranks import RunFailedError, fail

    with shown_errors():
        try:
            yield
        except RefusedError as refused:
            leave_with(str(refused), refused.status)
        except RunFailedError as failed:
            if isinstance(failed.__cause__, KeyboardInterrupt) and "RANK" not in os.environ:
                raise click.Abort from None  # alone: nobody waits for this process
            fail(failed)


def _choice(
    subject: Subject, world: World, store: Store | None, prepare: Callable[[], None] | None
) -> tuple[str, tuple[bytes, bytes] | None]:
    """The checkpoint's name, and on rank 0 its two files."""
    from pipeline.cli.facts import facts_of
    from pipeline.engine.checkpoint import read_checkpoint

    facts, patience = facts_of(subject.loaded), subject.loaded.config.plan.distributed.prepare_timeout
    if store is not None and not world.is_main:
        return await_choice(store, world.rank, facts), None
    files: tuple[bytes, bytes] | None = None

    def choose() -> str:
        nonlocal files
        require_same(store, world.world_size, facts, patience)
        if prepare is not None:
            prepare()
        name = choose_checkpoint(subject).name
        files = read_checkpoint(subject.folder, name)
        return name

    chosen = tell_choice(store, world.world_size, choose)  # sets files
    return chosen, files


def _seed(subject: Subject) -> int:
    """The seed in force: what samples look like depends on it."""
    from pipeline.runs.record import read

    seed = subject.loaded.config.plan.seed
    return read(subject.folder).seed if seed is None else seed


def _unrecorded(failure: Failure) -> None:
    """A failure here is no failure of the run, so its record stays as it is."""
