"""Iterable datasets: whether their shards are the whole, each sample once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from pipeline.cli.verification.digest import digest
from pipeline.cli.verification.probes import Trouble
from pipeline.engine import random_state
from pipeline.engine.fetch import seed_sample
from pipeline.engine.stream_fetch import can_shard

_SAMPLES = 2048


def trouble(dataset: Any) -> Trouble | None:
    """Compare two shards with the whole, as far as some samples reach; without shards nothing is said."""
    if not can_shard(dataset):
        return None
    with random_state.preserved():
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(0)
        whole = _read(dataset.shard(index=0, count=1))
        halves = [_read(dataset.shard(index=index, count=2)) for index in range(2)]
    both = Counter(halves[0]) + Counter(halves[1])
    if len(whole) < _SAMPLES:
        twice, never = (both - Counter(whole)).total(), (Counter(whole) - both).total()
        if twice or never:
            return Trouble(
                f"of its {len(whole)} samples {never} are in neither of two shards, and {twice} are there "
                "that should not be"
            )
    elif max(Counter(whole).values()) == 1 and (shared := (Counter(halves[0]) & Counter(halves[1])).total()):
        return Trouble(f"{shared} of its first samples are in both of two shards")
    return None


def _read(samples: Iterable[Any]) -> list[str]:
    """Digests of the first samples, all drawn from one seed."""
    found: list[str] = []
    iterator = iter(samples)
    while len(found) < _SAMPLES:
        seed_sample(0)
        one = list(islice(iterator, 1))
        if not one:
            break
        found.append(digest(one[0]))
    return found
