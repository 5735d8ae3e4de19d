"""Resuming with other numbers of ranks and other settings: what goes on, and what is said about it."""

from __future__ import annotations

import shutil

from killing import kill, record, recorded_config, run
from runs_of import record_of, rows_of

EPOCH = set(range(24))


def killed_in_its_epoch(command, folder, **changes):
    """The config and the folder of a run of 24 samples by 2 ranks, killed with step 3 of its epoch saved."""
    config = recorded_config(
        folder,
        **{
            "dataset": {"train": {"type": "drawing", "length": 24}},
            "scheduler": {"type": "warmup_linear", "warmup_steps": 2},
            "train": {"epochs": 2, "global_batch_size": 4, "log_every": "1 step"},
            "hooks": {"recorder": {}, "checkpoint": {"every": "1 step"}},
            **changes,
        },
    )
    return config, kill(command, 2, config, folder / "killed", "step_end", 4)


def indices(folder, steps):
    return [
        index
        for (step, _), row in sorted(record(folder).items())
        if step in steps
        for index in row["indices"]
    ]


def test_the_unconsumed_samples_come_once_each_at_any_number_of_ranks(command, tmp_path):
    """CKP-08, REQ-13: dataset 0..23, saved at step 3 by 2 ranks, batch 2 each; resumed by 1, 3 and 4."""
    config, killed = killed_in_its_epoch(command, tmp_path)
    logs = {}
    for world_size in (1, 2, 3, 4):
        folder = tmp_path / str(world_size) / killed.name
        shutil.copytree(killed, folder)
        for path in folder.glob("record-*"):
            path.unlink()
        job = run(command, world_size, config, "--resume", folder)
        warned = f"was written by 2 ranks and is resumed by {world_size}" in job.stderr(0)
        assert warned == (world_size != 2), job.report()
        assert ("derived anew" in job.stderr(0)) == warned
        rest, second = indices(folder, range(4, 7)), indices(folder, range(7, 13))
        assert sorted(indices(killed, range(1, 4)) + rest) == sorted(EPOCH)
        assert sorted(second) == sorted(EPOCH)
        assert {step for step, _ in record(folder)} == set(range(4, 13))
        by_step = {step: sorted(indices(folder, [step])) for step in range(4, 13)}
        logs[world_size] = by_step, [(row["step"], row["lr"]) for row in rows_of(folder) if "lr" in row]
    assert logs[1] == logs[2] == logs[3] == logs[4]  # the same global batches, and the same schedule
    assert [step for step, _ in logs[2][1]] == list(range(1, 13))


TABLE = {  # what is set, then what is said of it, and the exit status without and with --accept-changes
    "optimizer.lr=0.01": ("optimizer.lr: was 0.1, is 0.01: wants --accept-changes", 2, 0),
    "train.global_batch_size=2": ("train.global_batch_size: was 4, is 2: wants --accept-changes", 2, 0),
    "train.max_microbatch_size=1": (
        "train.max_microbatch_size: was None, is 1: wants --accept-changes",
        2,
        0,
    ),
    "model.width=9": ("model.width: was 8, is 9: refused", 2, 2),
    "train.epochs=3": ("changed: train.epochs: 2 -> 3 (takes effect)", 0, 0),
    "hooks.progress={}": ("changed: hooks.progress", 0, 0),
}


def test_each_changed_key_is_named_with_what_becomes_of_it(command, tmp_path):
    """CKP-12, CKP-08: before the first step, and nothing is trained where one change cannot be taken."""
    config, killed = killed_in_its_epoch(command, tmp_path, scheduler=None)
    for number, (change, (said, without, accepted)) in enumerate(TABLE.items()):
        for accept, status in (([], without), (["--accept-changes"], accepted)):
            folder = tmp_path / f"{number}-{len(accept)}" / killed.name
            shutil.copytree(killed, folder)
            before = rows_of(folder)
            job = run(command, 1, config, "--resume", folder, "--set", change, *accept, ends=status)
            if not accept:
                assert said in job.stderr(0), job.report()
            if status:
                assert rows_of(folder) == before
                continue
            changed = [one["key"] for one in record_of(folder)["attempts"][1]["changes"]]
            assert set(changed) == {change.partition("=")[0], "hooks.killer"}
            assert rows_of(folder)[:3] == before[:3]
            rates = {row["lr"] for row in rows_of(folder) if row["step"] > 3 and "lr" in row}
            assert rates == ({0.01} if change.startswith("optimizer") else {0.1})
