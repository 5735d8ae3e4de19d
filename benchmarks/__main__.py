"""``python -m benchmarks``: compare, print the page, and keep it in benchmarks/results.md."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmarks.compare import Case, compare
from benchmarks.report import page
from benchmarks.workloads import WORKLOADS

RESULTS = Path(__file__).parent / "results.md"


@click.command()
@click.option("--workload", "names", type=click.Choice(list(WORKLOADS)), multiple=True, help="Default: all.")
@click.option("--ranks", type=int, multiple=True, default=(1, 2), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--quick", is_flag=True, help="One short round of the workloads without convolution; not kept.")
def main(names: tuple[str, ...], ranks: tuple[int, ...], rounds: int, quick: bool) -> None:
    """Compare the engine with the hand-written loop, in turns, on this machine."""
    if quick:
        names, rounds = names or ("mlp", "linear"), 1
    comparisons = []
    for name in names or WORKLOADS:
        for world_size in ranks:
            comparison = compare(Case(WORKLOADS[name], world_size), rounds=rounds, scale=0.3 if quick else 1)
            print(f"{name}, {world_size} ranks: {comparison.ratio:.3f}", file=sys.stderr)
            comparisons.append(comparison)
    text = page(comparisons, rounds=rounds, quick=quick)
    print(text, end="")
    if not quick:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
