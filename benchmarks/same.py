"""That all sides do the same mathematics: from the same parameters over the same samples to the same ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_file
from torch import Tensor

from benchmarks.compare import Case
from benchmarks.job import Job
from benchmarks.measured import FOLDER
from benchmarks.processes import train
from benchmarks.sides import BEST, SIDES

STEPS = 30


@dataclass(frozen=True)
class Distance:
    """How far a side's parameters are from the best loop's."""

    side: str
    case: Case
    travelled: float
    """The largest change of a parameter from the first step to the last, in the best loop."""
    apart: float
    """The largest difference of a parameter between the two."""


def distances(case: Case, names: Sequence[str], *, steps: int = STEPS) -> list[Distance]:
    """Train ``steps`` steps in the dataset's order on every side.

    Raises:
        FailedError: if a side fails.
    """
    first = {
        f"{place:03}": parameter.detach()
        for place, parameter in enumerate(case.workload.make_model().parameters())
    }
    best = _parameters(BEST, case, steps)
    travelled = max((best[name] - first[name]).abs().max().item() for name in first)
    found = []
    for side in names:
        own = best if side == BEST else _parameters(side, case, steps)
        apart = max((own[name] - best[name]).abs().max().item() for name in first)
        found.append(Distance(side, case, travelled, apart))
    return found


def _parameters(side: str, case: Case, steps: int) -> dict[str, Tensor]:
    with TemporaryDirectory() as folder:
        job = Job(case.workload_name, steps, timed=False, folder=folder)
        train(SIDES[side], job, case.world_size)
        return load_file(job.result)


def keep(found: Sequence[Distance]) -> None:
    """Write a case's distances where ``kept`` finds them."""
    FOLDER.mkdir(exist_ok=True)
    _path(found[0].case).write_text(json.dumps([asdict(distance) for distance in found], indent=1) + "\n")


def kept(case: Case) -> list[Distance]:
    """The case's distances as they were kept, if they were."""
    path = _path(case)
    rows = json.loads(path.read_text()) if path.exists() else []
    return [Distance(**{**row, "case": Case(**row["case"])}) for row in rows]


def _path(case: Case) -> Path:
    return FOLDER / f"same-{case}.json"
