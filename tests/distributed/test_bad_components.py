"""Components and data that break their promises: exit status 1, said once, and recorded in the run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from runs_of import PARTS, only_run, record_of, rows_of, write_config

PARTS_TOO = [str(PARTS), str(PARTS.with_name("bad_parts.py"))]


def config_of(folder, **changes):
    return write_config(folder, components=PARTS_TOO, **changes)


def fails(command, folder, world_size, *arguments):
    """Run config.toml of ``folder``: all that its ranks wrote, and what is recorded."""
    job = command(world_size, ["run", "config.toml", *arguments], cwd=folder, launcher=world_size > 1)
    assert job.wait(timeout=30) == [1] * world_size, job.report()
    text = "".join(job.output(rank) for rank in range(world_size))
    record = record_of(only_run(folder / "runs"))
    assert record["status"] == record["attempts"][-1]["status"] == "failed"
    last = [line for line in text.splitlines() if " failed in " in line]
    assert len(last) == 1 and text.rstrip().endswith(record["failure"]["message"]), text
    return text, record["failure"]


POINTS = {"type": "points", "length": 0}
STREAM = {"type": "stream"}
TEXT = {"type": "text", "path": "nowhere.txt", "context": 4}
TENSORS = {"type": "tensors", "inputs": "nowhere.npy", "targets": "nowhere.npy"}
GROUPS = [{"params": ["*.nope"], "weight_decay": 0.0}]
SAVING = {"queue": {}, "checkpoint": {"every": "1 epoch"}}
OUTCOME = "expected pipeline.Outcome"

OURS = [  # explained by their message alone
    pytest.param({"dataset__train": POINTS}, "dataset.train", ["is empty", "at least one"], id="empty"),
    pytest.param({"dataset__eval": POINTS}, "dataset.eval", ["is empty", "at least one"], id="empty eval"),
    pytest.param(
        {"dataset__train": STREAM}, "dataset.train", ["gave 0 samples", "at least 1"], id="empty stream"
    ),
    pytest.param(
        {"train__global_batch_size": 64, "loader": {"drop_last": True}},
        None,
        ["train.global_batch_size = 64", "40 samples", "loader.drop_last"],
        id="the only batch dropped",
    ),
    pytest.param({"model": {"type": "untrainable"}}, "model", ["no parameter to train"], id="no parameters"),
    pytest.param({"model__freeze": ["*"]}, "model", ["no parameter to train", "freeze"], id="all frozen"),
    pytest.param(
        {"model__freeze": ["*.nope"]}, "model", ["model.freeze: '*.nope'", "first.weight"], id="none frozen"
    ),
    pytest.param(
        {"optimizer__groups": GROUPS}, "optimizer", ["optimizer.groups: '*.nope'", "first.bias"], id="groups"
    ),
    pytest.param(
        {"model__weights": "nowhere.st"}, "model", ["model.weights", "nowhere.st", "No such"], id="no weights"
    ),
    *(
        pytest.param({"objective": {"type": "no_outcome", "gives": gives}}, "objective", says, id=gives)
        for gives, says in {
            "tensor": ["a Tensor", OUTCOME],
            "none": ["a NoneType", OUTCOME],
            "vector": ["loss has the shape (", OUTCOME],
            "float": ["loss is a float", OUTCOME],
        }.items()
    ),
    pytest.param(
        {"objective": {"type": "nan"}, "hooks": {"nan_guard": {}}},
        "hooks.nan_guard",
        ["train/loss is not finite at step 1", "learning rate"],
        id="nan_guard",
    ),
    pytest.param(
        {"hooks": SAVING}, None, ["hooks.queue", "collections.deque", "last.losses"], id="state of a hook"
    ),
]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("changes", "component", "says"), OURS)
def test_errors_of_our_own_need_no_traceback(command, tmp_path, changes, component, says, world_size):
    path = config_of(tmp_path, **changes)
    text, failure = fails(command, tmp_path, world_size)
    assert "Traceback" not in text
    for fragment in says:
        assert text.count(fragment) == 1, text
    assert failure["component"] == component
    if component is not None:
        line = path.read_text().splitlines().index(f"[{component}]") + 1
        assert f"({component}, config.toml:{line}:" in text
    assert failure["traceback"].startswith("Traceback")  # kept for whoever looks for it


THEIRS = [
    pytest.param({"dataset__train": TEXT}, "dataset.train", "FileNotFoundError", "nowhere.txt", id="text"),
    pytest.param(
        {"dataset__eval": TENSORS}, "dataset.eval", "FileNotFoundError", "nowhere.npy", id="tensors"
    ),
    pytest.param(
        {"model": {"type": "wrong_shape"}}, "objective", "ValueError", "do not fit targets", id="shape"
    ),
    *(
        pytest.param({"model": {"type": "raising", "how": how}}, "model", kind, message, id=how)
        for how, kind, message in [
            ("two", "TwoArguments", "the stem broke in the model"),
            ("unspeakable", "Unspeakable", "its message cannot be shown"),
            ("exit", "SystemExit", "0"),
            ("interrupt", "KeyboardInterrupt", ""),
        ]
    ),
]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("changes", "component", "kind", "message"), THEIRS)
def test_what_components_raise_keeps_its_traceback(
    command, tmp_path, changes, component, kind, message, world_size
):
    config_of(tmp_path, **changes)
    text, failure = fails(command, tmp_path, world_size)
    assert text.count("Traceback (most recent call last)") == 1, text
    assert (failure["component"], failure["type"]) == (component, kind)
    assert message in failure["message"]
    assert f"({component}, config.toml:" in text.splitlines()[-1] and kind in text.splitlines()[-1]


@pytest.mark.parametrize("attempt", range(3))
def test_ranks_that_fail_at_once_say_so_once(command, tmp_path, attempt):
    """Whichever is first: the end of the other makes the launcher end it, but not before it has spoken."""
    config_of(tmp_path, hooks={"together": {}})
    text, failure = fails(command, tmp_path, 3)
    assert text.count(f"ValueError: broken on rank {failure['rank']}") == 2  # traceback and summary
    assert text.count("broken on rank") == 2 + 1  # and the line of source


def test_the_real_launcher_shows_an_exception_without_a_message(torchrun, tmp_path):
    """Its own table repeats the message, not the whole report."""
    config_of(tmp_path, model={"type": "raising", "how": "unspeakable"})
    job = torchrun(2, ["run", "config.toml"], cwd=tmp_path)
    assert job.wait() == 1
    assert job.output().count("failed in model 'raising' (model, config.toml:") == 1, job.output()
    assert record_of(only_run(tmp_path / "runs"))["status"] == "failed"


UNUSED = ["spare.weight, spare.bias", "model.freeze", "distributed.find_unused_parameters = true"]


PARTLY = {"type": "partly_used"}


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        pytest.param(1, {}, id="in the first step"),
        pytest.param(3, {}, id="in the third step"),
        pytest.param(2, {"train__max_microbatch_size": 2}, id="in the last microbatch"),
    ],
)
def test_parameters_that_one_rank_leaves_out(command, tmp_path, first, changes):
    """HNG-03: the other rank does not hang for it, and what the error names is a way out."""
    config_of(tmp_path, model={"type": "skipping", "first": first}, **changes)
    text, failure = fails(command, tmp_path, 2)
    assert (failure["rank"], failure["component"]) == (1, "model") and "Traceback" not in text
    for fragment in UNUSED:
        assert text.count(fragment) == 1, text
    allowed = ["--set", "distributed.find_unused_parameters=true", "--runs-dir", "allowed"]
    job = command(2, ["run", "config.toml", *allowed], cwd=tmp_path)
    assert job.wait() == [0, 0], job.report()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model": PARTLY}, id="never used"),
        pytest.param({"model": PARTLY, "train__steps": 1, "train__epochs": None}, id="in the only step"),
        pytest.param(
            {"model": {**PARTLY, "sometimes": True}, "train__max_microbatch_size": 2},
            id="not in the last microbatch",
        ),
    ],
)
def test_parameters_that_the_loss_does_not_depend_on(command, tmp_path, changes):
    """Named before the ranks drift apart."""
    config_of(tmp_path, **changes)
    text, failure = fails(command, tmp_path, 2)
    assert "Traceback" not in text and failure["component"] == "model"
    for fragment in UNUSED:
        assert text.count(fragment) == 1, text


@pytest.mark.parametrize(
    ("world_size", "override"),
    [(1, "train.epochs=1"), (2, "distributed.find_unused_parameters=true"), (2, 'model.freeze=["spare.*"]')],
)
def test_what_the_error_names_is_a_way_out(command, tmp_path, world_size, override):
    """And one process needs none."""
    config_of(tmp_path, model=PARTLY, train__epochs=1)
    job = command(world_size, ["run", "config.toml", "--set", override], cwd=tmp_path)
    assert job.wait() == [0] * world_size, job.report()


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        ("undeclared", "metrics.undeclared.worst declares no reduction"),
        ("mean_of_means", "metrics.mean_of_means.mean declares the reduction 'mean'"),
    ],
)
def test_a_metric_without_a_reduction_works_alone(command, tmp_path, metric, says):
    """With two ranks it is refused before the first step."""
    config_of(tmp_path, metrics={metric: {}})
    text, failure = fails(command, tmp_path, 2)
    assert "Traceback" not in text and says in text and "sum, max, min or cat" in text
    assert (failure["component"], failure["step"]) == (f"metrics.{metric}", 0)
    job = command(1, ["run", "config.toml", "--runs-dir", "alone"], cwd=tmp_path, launcher=False)
    assert job.wait() == [0], job.report()
    assert f"eval/{metric}" in record_of(only_run(tmp_path / "alone"))["metrics"]


class Planted:
    """What a pickle could do when it is read."""

    def __reduce__(self):
        return Path.touch, (Path("planted"),)


def plant_pickle(path):
    path.write_bytes(pickle.dumps(Planted()))


def plant_checkpoint(path):
    torch.save({"first.weight": torch.zeros(16, 8)}, path)


def plant_other_shapes(path):
    save_file({"first.weight": torch.zeros(16, 9), "head.bias": torch.zeros(3)}, path)


WEIGHTS = [
    pytest.param(plant_pickle, ["no sound safetensors file"], id="pickle"),
    pytest.param(plant_checkpoint, ["no sound safetensors file"], id="torch.save"),
    pytest.param(lambda path: path.write_bytes(b""), ["no sound safetensors file"], id="empty"),
    pytest.param(lambda path: path.mkdir(), ["Is a directory"], id="a folder"),
    pytest.param(
        plant_other_shapes,
        ["shape: first.weight is (16, 9), expected (16, 8)", "unexpected: head.bias", "missing: second.bias"],
        id="shapes",
    ),
]


@pytest.mark.parametrize(("plant", "says"), WEIGHTS)
def test_weights_to_start_from_that_do_not_fit(command, tmp_path, plant, says):
    plant(tmp_path / "start.safetensors")
    config_of(tmp_path, model__weights="start.safetensors")
    job = command(2, ["run", "config.toml"], cwd=tmp_path)
    assert job.wait() == [1, 1], job.report()
    text = job.output(0) + job.output(1)
    assert "Traceback" not in text
    for fragment in ["start.safetensors", *says]:
        assert text.count(fragment) == 1, text
    assert not (tmp_path / "planted").exists()
    assert record_of(only_run(tmp_path / "runs"))["failure"]["component"] == "model"


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("key", ["global_batch_size=64", "global_batch_size=1", "eval_batch_size=1"])
def test_batches_larger_than_the_data_or_smaller_than_the_ranks(command, tmp_path, key, world_size):
    """They are dealt exactly: the same as one process finds, in float64."""
    points = {"type": "points", "length": 7, "double": True}
    config_of(tmp_path, model__double=True, dataset={"train": points, "eval": {**points, "length": 5}})
    rows = []
    for size in (1, world_size):
        arguments = ["config.toml", "--set", f"train.{key}", "--runs-dir", f"runs-{size}"]
        job = command(size, ["run", *arguments], cwd=tmp_path)
        assert job.wait() == [0] * size, job.report()
        rows.append(rows_of(only_run(tmp_path / f"runs-{size}")))
    steps = 3 * 7 if key == "global_batch_size=1" else 3
    assert [row["step"] for row in rows[1] if "train/loss" in row] == list(range(1, steps + 1))
    for alone, together in zip(*rows, strict=True):
        assert together == pytest.approx(alone, rel=0, abs=1e-10)


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_loss_that_is_not_a_number(command, tmp_path, world_size):
    """Recorded as valid JSON, and never the best checkpoint."""
    hooks = {"checkpoint": {"every": "1 epoch", "monitor": "eval/loss", "mode": "min"}}
    config_of(tmp_path, objective={"type": "nan"}, hooks=hooks)
    job = command(world_size, ["run", "config.toml"], cwd=tmp_path)
    assert job.wait() == [0] * world_size, job.report()
    folder = only_run(tmp_path / "runs")
    assert not (folder / "checkpoints" / "best").exists()
    assert (folder / "checkpoints" / "last").exists()

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    for text in [(folder / "run.json").read_text(), *(folder / "metrics.jsonl").read_text().splitlines()]:
        json.loads(text, parse_constant=refuse)
    record = record_of(folder)
    assert record["best"] is None and record["metrics"]["eval/accuracy"] >= 0
