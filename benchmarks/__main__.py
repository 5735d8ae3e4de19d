"""``python -m benchmarks``: measure, print the page, and keep it beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmarks.compare import Case, compare
from benchmarks.order import measure_orders
from benchmarks.report import order_page, page
from benchmarks.workloads import WORKLOADS

RESULTS = Path(__file__).parent / "results.md"
ORDERS = Path(__file__).parent / "order.md"


@click.command()
@click.option("--workload", "names", type=click.Choice(list(WORKLOADS)), multiple=True, help="Default: all.")
@click.option("--ranks", type=int, multiple=True, default=(1, 2), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--quick", is_flag=True, help="One short round of the workloads without convolution; not kept.")
@click.option("--order", is_flag=True, help="Measure the order of samples instead, to 1e12 of them.")
def main(names: tuple[str, ...], ranks: tuple[int, ...], rounds: int, quick: bool, order: bool) -> None:
    """Compare the engine with the hand-written loop, in turns, on this machine."""
    if order:
        _show(order_page(list(measure_orders(quick=quick))), None if quick else ORDERS)
        return
    if quick:
        names, rounds = names or ("mlp", "linear"), 1
    comparisons = []
    for name in names or WORKLOADS:
        for world_size in ranks:
            comparison = compare(Case(WORKLOADS[name], world_size), rounds=rounds, scale=0.3 if quick else 1)
            print(f"{name}, {world_size} ranks: {comparison.ratio:.3f}", file=sys.stderr)
            comparisons.append(comparison)
    _show(page(comparisons, rounds=rounds, quick=quick), None if quick else RESULTS)


def _show(text: str, path: Path | None) -> None:
    print(text, end="")
    if path is not None:
        path.write_text(text)


if __name__ == "__main__":
    main()
