"""``pipeline check``: what is wrong with a config, and what it would run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.output import CONFIG_ERROR, say, shown_errors
from pipeline.cli.results import print_json, print_table, problems_as_json, toml_of

if TYPE_CHECKING:
    from pipeline.cli.checking import Batches, Report
    from pipeline.registry.provenance import Provenance

_MOST_RANKS = 1_000_000
"""Each has a share of its own to be told."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is TOML or text.")
@click.option("--unset", "unsets", multiple=True, metavar="KEY", help="Take a key or table out.")
@click.option(
    "--world-size",
    type=click.IntRange(1, _MOST_RANKS),
    default=1,
    show_default=True,
    help="Ranks to deal to.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, the problems too.")
@click.option("--resolved", is_flag=True, help="Print the resolved config alone, as TOML.")
def command(
    config: Path,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    world_size: int,
    as_json: bool,
    resolved: bool,
) -> None:
    """Find what is wrong with CONFIG, or show what it would run, without training.

    The config comes first. If it is valid, one batch of the data goes through model, objective, optimizer
    and metrics by shapes alone, which allocates and computes nothing.

    Exit status: 0 nothing is wrong, 2 something is.
    """
    if as_json and resolved:
        raise click.UsageError("--json and --resolved cannot be given together")
    with shown_errors(CONFIG_ERROR), problems_as_json(as_json):
        from pipeline.cli.loading import load_with_registry

        loaded = load_with_registry(config, sets=sets, unsets=unsets)
        if resolved:
            import tomli_w

            click.echo(tomli_w.dumps(loaded.config.tree), nl=False)
            return
        from pipeline.cli.checking import examine

        report = examine(loaded, world_size)
        if as_json:
            print_json(_document(report))
        else:
            _show(report)


def _document(report: Report) -> dict[str, Any]:
    config, rehearsal = report.config, asdict(report.rehearsal) if report.rehearsal else {}
    told = (
        "parameters",
        "trained",
        "memory",
        "samples",
        "steps_per_epoch",
        "total_steps",
        "unused",
        "unchecked",
    )
    return {
        "problems": [],
        "warnings": report.warnings,
        "name": config.plan.name,
        "seed": config.plan.seed,
        "world_size": report.world_size,
        "config": config.tree,
        "components": [asdict(one) for one in report.components],
        "batches": asdict(report.batches),
        "hooks": [asdict(hook) for hook in report.hooks],
        "monitor": asdict(report.monitor) if report.monitor else None,
        "limits": report.limits,
        **{key: rehearsal.get(key) for key in told},
        "checkpoints": asdict(report.checkpoints) if report.checkpoints else None,
    }


def _show(report: Report) -> None:
    from pipeline.config.compare import flatten

    for warning in report.warnings:
        say(f"warning: {warning}")
    places = report.config.places
    settings = flatten(report.config.tree)
    rows = [(key, toml_of(value), str(places.get(key, "default"))) for key, value in settings.items()]
    print_table(("key", "value", "from"), rows, title="config")
    click.echo()
    headers = ("component", "type", "distribution", "version", "from")
    print_table(headers, [_component(one) for one in report.components], title="components")
    click.echo()
    print_table(("run", ""), list(_summary(report)), title="what would run")
    _show_rehearsal(report)
    unchecked = report.rehearsal.unchecked if report.rehearsal else ()
    if report.limits:
        click.echo("\nlimits of the independence of the number of ranks")
        for limit in report.limits:
            click.echo(f"  {limit}")
    left = f" found; {len(unchecked)} unchecked" if unchecked else ""
    click.echo(f"\n{report.config.path}: no problems{left}")


def _show_rehearsal(report: Report) -> None:
    rehearsal, checkpoints = report.rehearsal, report.checkpoints
    if rehearsal is None:
        return
    click.echo()
    rows: list[tuple[str, object]] = [
        ("parameters", _number(rehearsal.parameters)),
        ("of which trained", _number(rehearsal.trained)),
        *((f"samples of {name}", _number(length)) for name, length in rehearsal.samples.items()),
        ("steps per epoch", _number(rehearsal.steps_per_epoch)),
        ("steps in all", _number(rehearsal.total_steps)),
    ]
    if rehearsal.memory is not None:
        sizes = asdict(rehearsal.memory).items()
        rows += [(f"memory per rank: {name}", byte_text(size)) for name, size in sizes]
    if checkpoints is not None:
        rows += [
            ("checkpoints", f"{checkpoints.written} written, at most {checkpoints.kept} kept"),
            ("disk for them", byte_text(checkpoints.disk)),
        ]
    print_table(("by shapes", ""), rows, title="what it would take")
    if rehearsal.unchecked:
        click.echo("\nunchecked, since it cannot be told without data")
        for one in rehearsal.unchecked:
            click.echo(f"  {one.key}: {one.reason}")


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def byte_text(size: int | None) -> str:
    """Bytes in the largest unit of 1000 that leaves a whole number before the point."""
    if size is None:
        return "not known"
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _component(one: Provenance) -> tuple[str | None, ...]:
    return one.key, one.type, one.distribution or "local", one.version, one.target


def _summary(report: Report) -> Iterator[tuple[str, object]]:
    plan, train = report.config.plan, report.config.plan.train
    yield "name", plan.name
    yield "seed", "drawn at the start" if plan.seed is None else plan.seed
    yield "length", f"{train.epochs} epochs" if train.epochs else f"{train.steps} steps"
    yield "ranks", report.world_size
    yield "global batch", f"{report.batches.global_batch_size} samples"
    yield "share per rank", _spread(report.batches.shares, "samples")
    yield "microbatches per rank", _spread(report.batches.microbatches, "")
    yield "evaluation batch", _evaluation(report.batches, len(plan.datasets))
    yield "hooks, in order", ", ".join(hook.name for hook in report.hooks) or "none"
    monitor = report.monitor
    yield "best checkpoint", f"{monitor.mode} of {monitor.metric}" if monitor else "not chosen: no monitor"


def _spread(numbers: tuple[int, ...], unit: str) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low if low == high else f'{low} to {high}'} {unit}".rstrip()


def _evaluation(batches: Batches, datasets: int) -> str:
    return f"{batches.eval_batch_size} samples" if datasets > 1 else "nothing to evaluate on"
