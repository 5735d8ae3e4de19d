"""Resuming finds the place in the epoch, and reads nothing that was read before."""

from __future__ import annotations

from runs_of import only_run, record_of, write_config


def test_an_epoch_that_has_ended_stays_ended_when_drop_last_changes(command, tmp_path):
    """drop_last true -> false: the samples left out do not come to life, and the epoch ends once."""
    changes = {"hooks": {"journal": {}, "checkpoint": {"every": "1 epoch"}}, "train__global_batch_size": 16}
    config = write_config(tmp_path, loader={"drop_last": True}, train__epochs=1, **changes)
    runs = tmp_path / "runs"
    job = command(2, ["run", config, "--runs-dir", runs])
    assert job.wait() == [0, 0], job.report()
    config = write_config(tmp_path, loader={"drop_last": False}, train__epochs=2, **changes)
    job = command(2, ["run", config, "--resume", only_run(runs), "--accept-changes"])
    assert job.wait() == [0, 0], job.report()
    folder = only_run(runs)
    calls = (folder / "journal-0.txt").read_text().splitlines()
    ends = [line.rpartition(" calls")[0] for line in calls if line.startswith("epoch_end")]
    assert ends == ["epoch_end epoch=0 step=2", "epoch_end epoch=1 step=5"]  # 40 samples: 2 and 3 batches
    assert record_of(folder)["steps"] == 5
