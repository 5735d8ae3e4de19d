"""``python -m benchmarks``: measure, keep the measurements, and make the page from all that are kept."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmarks.compare import Case, compare
from benchmarks.costs import measure_costs
from benchmarks.costs_page import costs_page
from benchmarks.measured import Measured, add, here_and_now, read_all
from benchmarks.memory import beside_the_best_loop, checkpoint_copies, courses
from benchmarks.memory_page import memory_page
from benchmarks.order import measure_orders
from benchmarks.order_page import order_page
from benchmarks.records import code_cost, listing_costs
from benchmarks.records_page import records_page
from benchmarks.report import page
from benchmarks.same import distances, keep, kept
from benchmarks.sides import BEST, ENGINE, SIDES, TUTORIAL
from benchmarks.start import measure_starts
from benchmarks.start_page import start_page
from benchmarks.workloads import WORKLOADS

HERE = Path(__file__).parent
_WORKLOAD = click.option(
    "--workload", "names", type=click.Choice(list(WORKLOADS)), multiple=True, default=list(WORKLOADS)
)
_SIDE = click.option("--side", "sides", type=click.Choice(list(SIDES)), multiple=True, default=list(SIDES))
CASES = [Case(name, ranks) for name in WORKLOADS for ranks in (1, 2)]


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure everything, or one part of it."""
    if context.invoked_subcommand is None:
        context.invoke(speed)
        context.invoke(same)
        context.invoke(order)
        context.invoke(records)
        context.invoke(start)
        context.invoke(costs)
        context.invoke(memory)


@main.command()
@_WORKLOAD
@click.option("--ranks", type=click.Choice(["1", "2"]), multiple=True, default=["1", "2"])
@_SIDE
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--more", is_flag=True, help="Add the rounds to those that are kept of the same commit.")
@click.option("--look", is_flag=True, help="Print the ratios alone, and keep nothing.")
def speed(
    names: tuple[str, ...],
    ranks: tuple[str, ...],
    sides: tuple[str, ...],
    rounds: int,
    more: bool,
    look: bool,
) -> None:
    """Steps per second of every side, in turns: a file a case, and results.md from all of them."""
    for case in CASES:
        if case.workload_name in names and str(case.world_size) in ranks:
            comparison = compare(case, [BEST, *(side for side in sides if side != BEST)], rounds=rounds)
            for side in comparison.speeds:
                ratios = " ".join(f"{ratio:.3f}" for ratio in comparison.ratios(side))
                print(f"{case} {side}: {comparison.speed(side):.1f} steps/s, {ratios}", file=sys.stderr)
            measured = Measured(comparison, here_and_now())
            if more:
                add(measured)
            elif not look:
                measured.write()
    if not look:
        _write_page()


@main.command()
@_WORKLOAD
@_SIDE
def same(names: tuple[str, ...], sides: tuple[str, ...]) -> None:
    """What every side ends with, from the same parameters over the same samples."""
    installed = [side for side in sides if SIDES[side].version is not None]
    for name in names:
        keep(distances(Case(name, 2), installed))
    _write_page()


@main.command("page")
def page_again() -> None:
    """results.md anew, from the measurements that are kept."""
    _write_page()


@main.command()
@click.option("--quick", is_flag=True, help="Few lengths; not kept.")
def order(quick: bool) -> None:
    """The order of samples, to 1e12 of them: order.md."""
    text = order_page(list(measure_orders(quick=quick)))
    print(text, end="")
    if not quick:
        (HERE / "order.md").write_text(text)


@main.command()
def records() -> None:
    """The list of 10,000 runs, and the record of a large repository's code: records.md."""
    text = records_page([*listing_costs(), code_cost()])
    print(text, end="")
    (HERE / "records.md").write_text(text)


@main.command()
@click.option("--times", type=click.IntRange(1), default=20, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Of the first steps.")
@click.option("--look", is_flag=True, help="Print the page, and keep nothing.")
def start(times: int, rounds: int, look: bool) -> None:
    """How long commands take to answer, and a run to make its first step: start.md."""
    cases = [Case("linear", ranks) for ranks in (1, 2)]
    first_steps = [compare(case, [TUTORIAL, ENGINE], rounds=rounds) for case in cases]
    text = start_page(list(measure_starts(times=times)), first_steps)
    print(text, end="")
    if not look:
        (HERE / "start.md").write_text(text)


@main.command()
def costs() -> None:
    """What the parts of the engine cost beside the step: costs.md."""
    text = costs_page(list(measure_costs()))
    print(text, end="")
    (HERE / "costs.md").write_text(text)


@main.command()
def memory() -> None:
    """Memory beside the best loop, over long runs and with checkpoints: memory.md."""
    beside = [figure for ranks in (1, 2) for figure in beside_the_best_loop("mlp", ranks)]
    text = memory_page([*beside, checkpoint_copies()], list(courses()))
    print(text, end="")
    (HERE / "memory.md").write_text(text)


def _write_page() -> None:
    found = [distance for name in WORKLOADS for distance in kept(Case(name, 2))]
    (HERE / "results.md").write_text(page(read_all(CASES), found))


if __name__ == "__main__":
    main()
