"""Promise 5, point by point: killed after every step of three epochs, in every arrangement."""

from __future__ import annotations

import itertools

import pytest

from comparing import assert_same_run
from killing import killed_again_and_again, record, recorded_config, whole
from runs_of import rows_of

STEPS = {2: 15, 3: 12}
"""Of three epochs of 20 samples: 2 ranks take 4 of them in a step, and 3 ranks 6, and at last 2."""

CHOSEN = {  # an epoch's end before its checkpoint, and after, two in one epoch, and the last step
    2: [("step_end", 5), ("epoch_start", 10), ("step_end", 12), ("step_end", 15)],
    3: [("epoch_start", 4), ("step_end", 6), ("step_end", 7), ("step_end", 12)],
}
ARRANGEMENTS = list(itertools.product((0, 2), (2, 1), ("bf16", "fp32")))
"""Workers, microbatches of a share, precision."""


def points(world_size):
    """Every step's end and every start of an epoch but the first, the chosen ones in front."""
    steps = STEPS[world_size]
    every = [("step_end", step) for step in range(1, steps + 1)]
    every += [("epoch_start", steps // 3), ("epoch_start", 2 * steps // 3)]
    return CHOSEN[world_size] + [point for point in every if point not in CHOSEN[world_size]]


@pytest.mark.parametrize("world_size", [2, 3])
def test_killed_at_any_step_in_any_arrangement(command, tmp_path, count, world_size):
    """CKP-04, CKP-05: reads, draws, masks, rates, hooks' states, rows and weights are those of a whole run.

    SIGKILL of all ranks; dataset 0..19; workers 0 and 2, accumulation 1 and 2, fp32 and bf16.
    """
    arrangements = ARRANGEMENTS if world_size == 2 else ARRANGEMENTS[::-1]
    kills = points(world_size)[: count(4, 17)]
    for number, (workers, pieces, precision) in enumerate(arrangements[: count(1, 8)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = recorded_config(
            folder,
            loader={"workers": workers},
            scheduler={"type": "warmup_cosine", "warmup_steps": 4},
            train__global_batch_size=2 * world_size,
            train__max_microbatch_size=2 // pieces,
            train__precision=precision,
        )
        expected = whole(command, world_size, config, folder / "whole")
        killed = killed_again_and_again(command, world_size, config, folder / "killed", kills)
        assert_same_run(killed, expected)
        assert record(killed) == record(expected)
        assert len(record(expected)) == world_size * STEPS[world_size]
        logged = [row["step"] for row in rows_of(killed) if "train/loss" in row]
        assert logged == list(range(1, STEPS[world_size] + 1))
