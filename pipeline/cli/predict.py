"""``pipeline predict``: write a checkpoint's outputs for a dataset."""

from __future__ import annotations

import errno
import os
import sys
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
from pipeline.cli.output import CONFIG_ERROR, is_main_rank, say, shown_errors
from pipeline.config.wording import nearest
from pipeline.errors import ConfigError, Problem
from pipeline.runs.files import reason, remedy, temporary, write_new

if TYPE_CHECKING:
    from pipeline.engine.offline import Bench


def _known_format(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    from pipeline.engine.predictions import FORMATS

    if value.suffix not in FORMATS:
        raise click.BadParameter(f"{value} has the suffix {value.suffix!r}; expected {', '.join(FORMATS)}")
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@checkpoint_options
@click.option("--dataset", required=True, metavar="NAME", help="A dataset of the config, train too.")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_known_format,
    help="A .safetensors, .jsonl or .npy file.",
)
def command(
    run: str,
    checkpoint: str | None,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    runs_dir: Path,
    nproc: int | None,
    dataset: str,
    output: Path,
) -> None:
    """Write the outputs of a checkpoint of RUN for every index of a dataset, each once.

    .safetensors has index (n,), predictions (n, ...) and, where the objective gives them, targets;
    .jsonl a line {"index": i, "predictions": ...} for each; .npy the predictions alone. All are in the
    order of the index, and do not depend on the number of processes. The first process holds all
    outputs in memory before it writes them.

    Exit status: 0 done, 1 failed, 2 wrong config or usage, or no such run, checkpoint or dataset.
    """
    refuse_nproc_under_launcher(nproc)
    with shown_errors(CONFIG_ERROR):
        subject = find_subject(run, checkpoint, runs_dir, sets, unsets)
        _require_dataset(subject, dataset)
        if nproc is not None:
            choose_checkpoint(subject)
            _require_writable(output)
            sys.exit(launch(nproc, without_nproc(sys.argv[1:])))

    def write_predictions(bench: Bench) -> int:
        from pipeline.engine.offline import predict
        from pipeline.engine.predictions import write

        predictions = predict(bench, dataset)
        if predictions is None:
            return 0
        bench.position.set_phase("writing the predictions")
        write(output, predictions)
        return len(predictions.index)

    with shown_failures():
        written = at_work(subject, write_predictions, prepare=lambda: _require_writable(output))
    if is_main_rank():
        say(f"{written} predictions for dataset.{dataset} written to {output}")


def _require_dataset(subject: Subject, name: str) -> None:
    """Raises: ConfigError: if the config has no such dataset; it names the nearest."""
    known = list(subject.loaded.config.plan.datasets)
    if name not in known:
        near = nearest(name, known, cutoff=0.5)
        message = f"{subject.folder.name} has no such dataset"
        raise ConfigError([Problem("--dataset", name, message, f"one of {', '.join(known)}", near)])


def _require_writable(path: Path) -> None:
    """Raises: ConfigError: if the file could not be written; found out before anything is computed."""
    probe = temporary(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        write_new(probe, b"")
        probe.unlink()
    except OSError as error:
        message = f"cannot be written: {reason(error)}; {remedy(error)}"
        raise ConfigError([Problem("--output", str(path), message)]) from error
