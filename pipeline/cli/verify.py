"""``pipeline verify``: prove the promises on the user's own components."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.output import FAILED, say, shown_errors
from pipeline.cli.results import print_json, print_table, problems_as_json

if TYPE_CHECKING:
    from pipeline.cli.verification.finding import Check


def _world_sizes(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    """``1,2`` as numbers, ascending."""
    sizes = [int(text) if text.strip().isdecimal() else 0 for text in value.split(",")]
    if 0 in sizes or len(set(sizes)) < len(sizes):
        raise click.BadParameter(f"{value!r} is no list of different numbers of processes, as 1,2")
    return tuple(sorted(sizes))


@dataclass(frozen=True)
class Report:
    """What was found about a config."""

    config: str
    seed: int
    steps: int
    world_sizes: tuple[int, ...]
    checks: tuple[Check, ...]

    @property
    def failed(self) -> bool:
        return any(check.verdict == "failed" for check in self.checks)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is TOML or text.")
@click.option("--unset", "unsets", multiple=True, metavar="KEY", help="Take a key or table out.")
@click.option(
    "--steps", type=click.IntRange(min=2), default=8, show_default=True, help="Length of each trial."
)
@click.option(
    "--world-sizes",
    callback=_world_sizes,
    metavar="N,N",
    default="1,2",
    show_default=True,
    help="Numbers of processes to compare.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, the problems too.")
def command(
    config: Path,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    steps: int,
    world_sizes: tuple[int, ...],
    as_json: bool,
) -> None:
    """Prove the promises on the components of CONFIG, by short runs in real processes.

    A few steps are run with each number of processes, twice, and once killed and resumed. What differs
    that should not is told, with the component that is to blame, its config line and what to do. Nothing
    is kept: all runs are in a temporary folder.

    Exit status: 0 all promises are kept, 1 a component breaks one, 2 wrong config or usage.
    """
    if "RANK" in os.environ:
        raise click.UsageError("verify starts processes of its own; run it without a launcher")
    with shown_errors(), problems_as_json(as_json):
        report = _verify(config, sets, unsets, steps, world_sizes)
    if as_json:
        print_json(_document(report))
    else:
        _show(report)
    sys.exit(FAILED if report.failed else 0)


def _verify(
    config: Path, sets: tuple[str, ...], unsets: tuple[str, ...], steps: int, world_sizes: tuple[int, ...]
) -> Report:
    from pipeline.cli.verification.laboratory import laboratories

    with _ended_in_order(), laboratories() as (here, elsewhere):  # which import torch while this process does
        from pipeline.cli.loading import load_with_registry
        from pipeline.cli.seed import seed_of
        from pipeline.cli.verification.trial import Subject
        from pipeline.cli.verification.trials import Trials, temporary_folder
        from pipeline.cli.verification.verify import verify

        loaded = load_with_registry(config, sets=sets, unsets=unsets)
        for warning in (*loaded.registry.warnings, *loaded.config.warnings):
            say(f"warning: {warning}")
        seed = seed_of(loaded.config.plan)
        subject = Subject(config=str(config), sets=sets, unsets=unsets, seed=seed)
        with temporary_folder() as folder:
            trials = Trials(subject, folder, here, elsewhere, say)
            checks = verify(trials, loaded.config, steps=steps, world_sizes=world_sizes)
    return Report(str(config), seed, steps, world_sizes, checks)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM end what was started as Ctrl-C does, and nothing be written beside the user's files."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before, writes = signal.signal(signal.SIGTERM, interrupt), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    except KeyboardInterrupt:
        raise click.Abort from None
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.dont_write_bytecode = writes


def _document(report: Report) -> dict[str, Any]:
    return {"problems": [], "passed": not report.failed, **asdict(report)}


def _show(report: Report) -> None:
    rows = [(check.title, check.verdict, check.detail) for check in report.checks]
    print_table(("promise", "result", "what was compared"), rows)
    findings = [finding for check in report.checks for finding in check.findings]
    notes = [note for check in report.checks for note in check.notes]
    for title, lines in (("broken", findings), ("worth knowing", notes)):
        if lines:
            click.echo(f"\n{title}")
            for line in lines:
                click.echo(f"  {line}")
    broken = sum(check.verdict == "failed" for check in report.checks)
    made = sum(check.verdict != "not made" for check in report.checks)
    told = f"{broken} of {made} promises broken" if broken else f"{made} promises kept"
    left = len(report.checks) - made
    click.echo(f"\n{report.config}: {told}" + (f"; {left} not looked at" if left else ""))
