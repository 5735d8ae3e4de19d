"""``pipeline evaluate``: the run's own numbers again, at any world size, and nothing written."""

from __future__ import annotations

import json
import shutil

import pytest

from runs_of import rows_of

OFFLINE = {"OFFLINE": "1"}  # the training dataset, the optimizer and one hook refuse to be built then


def measured(command, world_size, run, *options):
    """The JSON that rank 0 prints; no other rank prints anything."""
    job = command(world_size, ["evaluate", run, "--json", *options], env=OFFLINE)
    assert job.wait() == [0] * world_size, job.report()
    assert not any(job.stdout(rank) for rank in range(1, world_size))
    return json.loads(job.stdout(0))


def content_of(folder):
    return {
        path.relative_to(folder): path.is_file() and (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def refused(command, *arguments):
    """Standard error of a command that exits with 2."""
    job = command(1, ["evaluate", *arguments])
    assert job.wait()[0] == 2, job.report()
    assert not job.stdout(0)
    return job.stderr(0)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_the_numbers_are_those_that_the_run_logged(command, restless, world_size):
    """Bit for bit at the same world size, in mid-epoch and at its end; only what is needed is built."""
    folder = restless(world_size)
    before = content_of(folder)
    logged = {row["step"]: row for row in rows_of(folder) if "eval/loss" in row}
    assert sorted(logged) == [3, 6, 9]
    for step in (3, 9):
        result = measured(command, world_size, folder, "--checkpoint", f"step-{step:06d}")
        assert (result["run"], result["step"]) == (folder.name, step)
        expected = {name: value for name, value in logged[step].items() if name not in ("step", "epoch")}
        assert result["metrics"] == expected
        assert (result["metrics"]["eval/samples"], result["metrics"]["other/samples"]) == (23, 5)
    assert content_of(folder) == before


def test_another_world_size_counts_every_sample_once(command, restless):
    """The model draws, so its numbers differ; the counts do not."""
    for world_size in (1, 2):
        metrics = measured(command, world_size, restless(3))["metrics"]
        assert (metrics["eval/samples"], metrics["other/samples"]) == (23, 5)


@pytest.mark.parametrize("world_size", [2, 3])
def test_any_world_size_gives_the_same_numbers(command, quiet, world_size):
    one = measured(command, 1, quiet)["metrics"]
    other = measured(command, world_size, quiet)["metrics"]
    assert other == pytest.approx(one, abs=1e-6)
    assert other["eval/accuracy"] == one["eval/accuracy"]  # a ratio of counts is exact


def test_the_best_checkpoint_is_the_default_and_the_last_where_there_is_none(command, restless, quiet):
    folder = restless(1)
    best = (folder / "checkpoints" / "best").read_text().strip()
    assert measured(command, 1, folder)["checkpoint"] == best
    assert measured(command, 1, folder, "--checkpoint", "last")["checkpoint"] == "step-000010"
    assert measured(command, 1, quiet)["checkpoint"] == "step-000010"


def test_the_end_of_the_run_belongs_to_its_last_epoch(command, quiet):
    """Its checkpoint stands at the start of the next epoch already."""
    logged = [row for row in rows_of(quiet) if "eval/loss" in row][-1]
    result = measured(command, 1, quiet, "--checkpoint", "last")
    assert (result["step"], result["metrics"]["eval/loss"]) == (10, logged["eval/loss"])


def test_the_table_names_run_checkpoint_and_every_metric(command, restless):
    job = command(1, ["evaluate", restless(1), "--checkpoint", "step-000003"], env=OFFLINE)
    assert job.wait() == [0]
    for word in (restless(1).name, "step-000003", "eval", "other", "loss", "accuracy", "samples"):
        assert word in job.stdout(0)


def test_overrides_take_effect(command, quiet):
    more = ["--set", 'dataset.more.type="noisy"', "--set", "dataset.more.length=3"]
    less = ["--unset", "dataset.eval", "--unset", "dataset.other"]
    metrics = measured(command, 1, quiet, *more, *less)["metrics"]
    assert sorted(metrics) == ["more/accuracy", "more/loss"]


def test_a_run_or_checkpoint_that_is_not_there_is_refused_with_the_nearest(command, restless):
    folder = restless(1)
    runs = ["--runs-dir", folder.parent]
    assert "no run 'tt' in" in refused(command, "tt", *runs)
    assert f"the nearest are {folder.name}" in refused(command, f"{folder.name[:-1]}x", *runs)
    message = refused(command, folder.name, *runs, "--checkpoint", "step-000008")
    assert "no such checkpoint; expected one of last, best, step-000010" in message
    assert "did you mean 'step-0000" in message
    assert "did you mean 'best'?" in refused(command, "t", *runs, "--checkpoint", "bets")
    assert "modle" in refused(command, "t", *runs, "--set", "modle.type=1")


def test_all_ranks_leave_when_rank_0_finds_no_checkpoint(command, restless):
    job = command(2, ["evaluate", restless(2), "--checkpoint", "bets"])
    assert job.wait()[0] == 2, job.report()
    assert "no such checkpoint" not in job.stderr(1)


def test_a_run_without_checkpoints_is_refused(command, restless, tmp_path):
    folder = tmp_path / restless(1).name
    shutil.copytree(restless(1), folder, ignore=shutil.ignore_patterns("checkpoints"))
    assert "a run that has written one" in refused(command, folder)


def test_a_config_with_training_data_alone_is_refused(command, trained):
    changes = {"metrics": {}, "train": {"steps": 1, "global_batch_size": 8}}
    run = trained(1, dataset__eval=None, hooks={"checkpoint": {"every": "never"}}, **changes)
    assert "train is the only dataset" in refused(command, run)


def test_nproc_under_a_launcher_is_a_usage_error(command, restless):
    assert "--nproc" in refused(command, restless(1), "--nproc", "2")


def test_a_damaged_checkpoint_is_named_without_a_traceback(command, restless, tmp_path):
    folder = tmp_path / restless(1).name
    shutil.copytree(restless(1), folder)
    state = folder / "checkpoints" / "step-000003" / "state.pt"
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    job = command(2, ["evaluate", folder, "--checkpoint", "step-000003"])
    assert job.wait()[0] == 1, job.report()
    assert "state.pt" in job.stderr(0) and "Traceback" not in job.stderr(0)


def test_a_failure_names_rank_and_component_and_stays_out_of_the_record(command, restless):
    folder = restless(2)
    before = content_of(folder)
    job = command(2, ["evaluate", folder, "--set", "dataset.other.bad=3"], end_together=False)
    assert job.wait() == [1, 1], job.report()
    assert "sample 3 is broken" in job.stderr(1), job.report()
    assert "rank 1 on " in job.stderr(1) and "dataset 'noisy' (dataset.other," in job.stderr(1)
    assert "Traceback" not in job.stderr(0)
    assert content_of(folder) == before
