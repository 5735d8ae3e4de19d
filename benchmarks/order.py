"""The order of samples at any length: the start of an epoch, its memory, and indices per second.

Each measurement has a process of its own: ``python -m benchmarks.order SIDE LENGTH`` prints one as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from benchmarks.resident import resident

ROOT = Path(__file__).parent.parent
RANKS, GLOBAL_BATCH = 8, 512
EPOCHS, BATCHES = 5, 2000
LENGTHS = tuple(10**digits for digits in range(3, 13))
LONGEST_STORED = 10**7
"""What DistributedSampler is asked for: it makes a list, 36 bytes a sample."""


@dataclass(frozen=True)
class OrderCost:
    """What one rank of eight pays for an order."""

    side: str
    length: int
    start_seconds: float
    """From ``set_epoch`` to the first batch, the least of five epochs."""
    megabytes: float
    """By which the process has grown at its largest."""
    indices_per_second: float
    """Of this rank, behind the first batch."""


class _Length:
    """A dataset that has nothing but its length."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


def _engine(length: int) -> Callable[[int], Iterator[list[int]]]:
    from pipeline import EpochSampler

    sampler = EpochSampler(length, seed=7, rank=3, world_size=RANKS, global_batch_size=GLOBAL_BATCH)

    def epoch(number: int) -> Iterator[list[int]]:
        sampler.load_state_dict({"epoch": number, "samples": 0})
        return iter(sampler)

    return epoch


def _torch(length: int) -> Callable[[int], Iterator[list[int]]]:
    from torch.utils.data import BatchSampler, DistributedSampler

    sampler: DistributedSampler[int] = DistributedSampler(
        _Length(length),  # type: ignore[arg-type]
        num_replicas=RANKS,
        rank=3,
        seed=7,
    )
    batches = BatchSampler(sampler, GLOBAL_BATCH // RANKS, drop_last=False)

    def epoch(number: int) -> Iterator[list[int]]:
        sampler.set_epoch(number)
        return iter(batches)

    return epoch


SIDES = {"engine": _engine, "torch": _torch}


def cost_of(side: str, length: int) -> OrderCost:
    """Measure in this process, which should be a fresh one."""
    epoch = SIDES[side](length)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak, which importing has set, begins anew
    starts = []
    for number in range(EPOCHS):
        begin = time.perf_counter()
        batches = epoch(number)
        next(batches)
        starts.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    indices = sum(len(batch) for batch in islice(batches, BATCHES))
    seconds = time.perf_counter() - begin
    return OrderCost(side, length, min(starts), resident("VmHWM") - before, indices / seconds)


def measure_orders(*, quick: bool) -> Iterator[OrderCost]:
    """Every length, on both sides as far as they go.

    Raises:
        RuntimeError: if a process fails; with its output.
    """
    for length in LENGTHS[:: 3 if quick else 1]:
        for side in SIDES:
            if side == "engine" or length <= LONGEST_STORED:
                yield _in_a_fresh_process(side, length)


def _in_a_fresh_process(side: str, length: int) -> OrderCost:
    command = [sys.executable, "-m", "benchmarks.order", side, str(length)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return OrderCost(**json.loads(done.stdout))


if __name__ == "__main__":
    print(json.dumps(asdict(cost_of(sys.argv[1], int(sys.argv[2])))))
