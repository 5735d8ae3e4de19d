"""What the engine holds in memory: beside the best loop, over many steps and epochs, and in a checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figure import Figure
from benchmarks.job import Job
from benchmarks.probed import probed, train_table
from benchmarks.processes import ROOT, FailedError, environment, train
from benchmarks.sides import BEST, ENGINE, SIDES
from benchmarks.workloads import WORKLOADS

ROUNDS = 3
STEPS = 1_000
"""Of the comparison; more than an epoch."""
LONG_STEPS, LONG_EPOCHS = 100_000, 1_000
"""Multiples of the readings."""
READINGS = 10
WIDE = 4096
"""Inputs and outputs of the layer whose checkpoints are written."""
ONE_COPY = 1.1
"""Of the state, and what the writer itself needs: a second copy would make it 2."""


@dataclass(frozen=True)
class Course:
    """Memory over a long run."""

    what: str
    unit: str
    """Of what is counted."""
    readings: tuple[tuple[int, float], ...]
    """(steps or epochs done, MB), evenly spaced."""

    @property
    def growth(self) -> float:
        """MB from the second reading to the last: what is made once is there by then."""
        return self.readings[-1][1] - self.readings[1][1]


def beside_the_best_loop(workload_name: str, world_size: int) -> tuple[Figure, Figure, Figure]:
    """Rank 0's peak above the level after imports, in MB: the loop's, the engine's, and the ratio.

    Raises:
        FailedError: if a side fails.
    """
    rounds = [
        [_above_imports(side, workload_name, world_size) for side in (BEST, ENGINE)] for _ in range(ROUNDS)
    ]
    best, own = (tuple(of) for of in zip(*rounds, strict=True))
    ratios = tuple(one / other for other, one in rounds)
    case = f"{workload_name}, {world_size} rank{'s' * (world_size > 1)}"
    return (
        Figure(f"{case}: the best loop", "MB", None, best),
        Figure(f"{case}: the engine", "MB", None, own),
        Figure(f"{case}: the engine over the best loop", "", 1.03, ratios),
    )


def checkpoint_copies(*, rounds: int = ROUNDS) -> Figure:
    """By how many states the peak is higher where one is written beside the training."""
    model = {"type": "mlp", "in_features": WIDE, "hidden": [], "out_features": WIDE}
    tables: dict[str, Any] = {
        "model": model,
        "dataset": {
            "train": {"type": "random", "length": 320, "input_shape": [WIDE], "target_shape": [WIDE]}
        },
        "train": train_table("linear", steps=10),
    }
    state = 2 * 4 * (WIDE + 1) * WIDE / 1e6  # weights and momentum, fp32

    def peak(**hooks: Any) -> float:
        (megabytes,) = probed("linear", **tables, hooks={"peak": {}, **hooks})
        return float(megabytes)

    copies = tuple((peak(checkpoint={"every": "3 steps"}) - peak()) / state for _ in range(rounds))
    return Figure(
        f"checkpoints written beside the training, in states of {state:.0f} MB", "", ONE_COPY, copies
    )


def courses(*, steps: int = LONG_STEPS, epochs: int = LONG_EPOCHS) -> Iterator[Course]:
    """Memory over many steps of the linear model, and over many epochs with their evaluations."""
    every = steps // READINGS
    seen = probed("linear", train=train_table("linear", steps=steps), hooks={"resident": {"every": every}})
    yield _course("the linear model", "steps", every, seen)
    every = epochs // READINGS
    rows = {"type": "random", "length": 64, "input_shape": [8], "target_shape": [1]}
    batch = WORKLOADS["linear"].batch_per_rank
    seen = probed(
        "linear",
        dataset={"train": rows, "eval": rows},
        train=train_table("linear", epochs=epochs, evaluate_every="1 epoch", log_every="1 epoch"),
        hooks={"resident": {"every": every * 64 // batch}},
    )
    yield _course("64 rows, with an evaluation and two rows of metrics an epoch", "epochs", every, seen)


def _course(what: str, unit: str, every: int, seen: list[float]) -> Course:
    return Course(what, unit, tuple((every * place, of) for place, of in enumerate(seen, 1)))


def _above_imports(name: str, workload_name: str, world_size: int) -> float:
    """The peak of a side's rank 0 in MB, less the level of a process that has only made its imports."""
    with TemporaryDirectory() as folder:
        told = Path(folder, "resident.json")
        side = SIDES[name]

        def watched(job: Job, ranks: int) -> list[str]:
            return ["benchmarks.resident", "run", str(told), *side.command(job, ranks)]

        train(
            replace(side, command=watched), Job(workload_name, STEPS, timed=True, folder=folder), world_size
        )
        command = [sys.executable, "-m", "benchmarks.resident", "import", str(told)]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise FailedError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        tree = json.loads(told.read_text())
        return float(tree["peak"] - tree["level"])
