"""``pipeline evaluate``: measure a checkpoint."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.launch import launch, without_nproc
from pipeline.cli.offline import (
    Subject,
    at_work,
    checkpoint_options,
    choose_checkpoint,
    find_subject,
    refuse_nproc_under_launcher,
    shown_failures,
)
from pipeline.cli.output import CONFIG_ERROR, is_main_rank, shown_errors
from pipeline.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pipeline.engine.offline import Bench


@dataclass(frozen=True)
class Measured:
    """What was measured of which checkpoint."""

    checkpoint: str
    step: int
    metrics: dict[str, float]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@checkpoint_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str,
    checkpoint: str | None,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    runs_dir: Path,
    nproc: int | None,
    as_json: bool,
) -> None:
    """Evaluate a checkpoint of RUN on all datasets of its config but train.

    The run's folder stays as it is. With as many processes as the run had, the numbers are those
    that it logged at the checkpoint's step.

    Exit status: 0 done, 1 failed, 2 wrong config or usage, or no such run or checkpoint.
    """
    refuse_nproc_under_launcher(nproc)
    with shown_errors(CONFIG_ERROR):
        subject = find_subject(run, checkpoint, runs_dir, sets, unsets)
        _require_evaluation_dataset(subject)
        if nproc is not None:
            choose_checkpoint(subject)
            sys.exit(launch(nproc, without_nproc(sys.argv[1:])))
    with shown_failures():
        measured = at_work(subject, _measure)
    if is_main_rank():
        _print_json(subject, measured) if as_json else _print_table(subject, measured)


def _require_evaluation_dataset(subject: Subject) -> None:
    """Raises: ConfigError: if there is nothing to evaluate on."""
    config = subject.loaded.config
    if set(config.plan.datasets) == {"train"}:
        message = "train is the only dataset, and it is not evaluated on"
        expected = "another one beside it: --set dataset.NAME.type=..."
        raise ConfigError([Problem(str(config.path), "dataset", message, expected)])


def _measure(bench: Bench) -> Measured:
    from pipeline.engine.offline import evaluate

    metrics = evaluate(bench)
    return Measured(bench.checkpoint.name, bench.position.step, metrics)


def _print_json(subject: Subject, measured: Measured) -> None:
    result = {
        "run": subject.folder.name,
        "checkpoint": measured.checkpoint,
        "step": measured.step,
        "metrics": {name: _for_json(value) for name, value in measured.metrics.items()},
    }
    click.echo(json.dumps(result, allow_nan=False))


def _for_json(value: float) -> float | str:
    """As in metrics.jsonl: JSON has no words for what is not finite."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _print_table(subject: Subject, measured: Measured) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    click.echo(f"{subject.folder.name}, {measured.checkpoint}")
    table = Table("dataset", "metric")
    table.add_column("value", justify="right")
    for name, value in measured.metrics.items():
        dataset, _, metric = name.partition("/")
        table.add_row(Text(dataset), Text(metric), f"{value:.6g}")
    Console().print(table)
