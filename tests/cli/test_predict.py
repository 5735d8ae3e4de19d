"""``pipeline predict``: each index once, in order, the same file at any world size."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.api.outcome import Outcome
from pipeline.engine.offline import WholeBatches
from pipeline.engine.predictions import Batch, Predictions, batch_of, joined, write
from pipeline.errors import ComponentError, RunError
from runs_of import weights_of

OFFLINE = {"OFFLINE": "1"}


def predicted(command, world_size, run, output, *options, dataset="eval"):
    job = command(world_size, ["predict", run, "--dataset", dataset, "-o", output, *options], env=OFFLINE)
    assert job.wait() == [0] * world_size, job.report()
    assert not any(job.stdout(rank) for rank in range(world_size))
    assert [path.name for path in output.parent.iterdir() if path.name.startswith(".")] == []
    return output


def refused(command, status, *arguments, world_size=1, **options):
    job = command(world_size, ["predict", *arguments], **options)
    assert job.wait()[0] == status, job.report()
    return job.stderr(0)


@pytest.mark.parametrize(("dataset", "length"), [("eval", 23), ("other", 5)])
def test_the_file_is_the_same_at_any_world_size(command, restless, tmp_path, dataset, length):
    """Byte for byte, with a model that draws, at odd lengths and with ranks that get nothing."""
    files = [
        predicted(command, size, restless(1), tmp_path / f"{size}.safetensors", dataset=dataset)
        for size in (1, 2, 3)
    ]
    tensors = safetensors.torch.load_file(files[0])
    assert torch.equal(tensors["index"], torch.arange(length))
    assert tensors["predictions"].shape == (length, 3)
    assert tensors["targets"].dtype == torch.int64 and tensors["targets"].shape == (length,)
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


def test_predictions_are_the_models_own_in_the_order_of_the_index(command, trained, tmp_path):
    """For the training dataset too, against plain torch: no dropout, and batch norm's running statistics."""
    changes = {
        "model": {"type": "net", "dropout": 0.5, "batch_norm": True},
        "hooks": {"checkpoint": {"every": "never"}},
        "train": {"steps": 3, "global_batch_size": 8},
    }
    run = trained(2, **changes)
    weights = weights_of(run)
    generator = torch.Generator().manual_seed(40)
    inputs = torch.randn(40, 8, generator=generator)
    hidden = inputs @ weights["first.weight"].T + weights["first.bias"]
    statistics = (weights[f"norm.{name}"] for name in ("running_mean", "running_var", "weight", "bias"))
    hidden = torch.tanh(torch.nn.functional.batch_norm(hidden, *statistics))
    expected = hidden @ weights["second.weight"].T + weights["second.bias"]

    array = np.load(predicted(command, 2, run, tmp_path / "p.npy", dataset="train"))
    torch.testing.assert_close(torch.from_numpy(array), expected)
    file = predicted(command, 3, run, tmp_path / "p.jsonl", dataset="train")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["index"] for row in rows] == list(range(40))
    assert np.array_equal(np.array([row["predictions"] for row in rows], dtype=np.float32), array)


def test_every_sample_is_read_once_and_a_cap_on_microbatches_holds(command, quiet, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()
    recorded = ["--set", 'dataset.more.type="recorded"', "--set", "dataset.more.length=7"]
    recorded += ["--set", f'dataset.more.folder="{seen}"', "--set", "train.max_microbatch_size=2"]
    predicted(command, 2, quiet, tmp_path / "p.npy", *recorded, dataset="more")
    rows = [
        [json.loads(line) for line in (seen / f"rank-{rank}.jsonl").read_text().splitlines()]
        for rank in (0, 1)
    ]
    assert [[row["index"] for row in own if "index" in row] for own in rows] == [[0, 1, 4, 5], [2, 3, 6]]


@pytest.mark.parametrize(
    ("form", "words"), [("none", "NoneType"), ("list", "list"), ("flat", "a tensor of shape (24,)")]
)
def test_predictions_that_cannot_be_indexed_are_refused(command, quiet, tmp_path, form, words):
    output = tmp_path / "p.npy"
    shaped = ["--set", f'objective={{type="shaped", form="{form}"}}', "--unset", "metrics.accuracy"]
    message = refused(command, 1, quiet, "--dataset", "eval", "-o", output, *shaped)
    assert "objective 'shaped' (objective, " in message
    assert f") gave {words} as the predictions of a batch of 8 samples" in message
    assert "must be a tensor of shape (8, ...)" in message
    assert list(tmp_path.iterdir()) == []


def test_predictions_of_several_shapes_are_refused_over_all_ranks(command, quiet, tmp_path):
    output = tmp_path / "p.npy"
    output.write_text("kept")
    shaped = ["--set", 'objective={type="shaped", form="ragged"}', "--unset", "metrics.accuracy"]
    arguments = [quiet, "--dataset", "eval", "-o", output, *shaped]
    message = refused(command, 1, *arguments, world_size=3, end_together=False)
    assert "(8, 3) for the batch at index 0 and (7, 2) for the one at index 16" in message
    assert output.read_text() == "kept"


def test_a_path_that_cannot_be_written_is_found_before_anything_is_built(command, quiet, tmp_path):
    bad = ["--set", "dataset.eval.bad=0"]
    for output, words in ((tmp_path / "nowhere" / "p.npy", "ENOENT"), (tmp_path / "folder.npy", "EISDIR")):
        (tmp_path / "folder.npy").mkdir(exist_ok=True)
        message = refused(command, 2, quiet, "--dataset", "eval", "-o", output, *bad, world_size=2)
        assert f"--output {output}: cannot be written" in message and words in message
        assert "broken" not in message


def test_unknown_names_are_usage_errors(command, quiet, tmp_path):
    output = ["-o", tmp_path / "p.npy"]
    assert "did you mean 'eval'?" in refused(command, 2, quiet, "--dataset", "evl", *output)
    assert "no run 'x'" in refused(command, 2, "x", "--dataset", "eval", "--runs-dir", tmp_path, *output)
    wrong = ["--checkpoint", "lst"]
    assert "did you mean 'last'?" in refused(command, 2, quiet, "--dataset", "eval", *output, *wrong)
    message = refused(command, 2, quiet, "--dataset", "eval", "-o", tmp_path / "p.csv")
    assert "expected .safetensors, .jsonl, .npy" in message


@given(
    length=st.integers(1, 60),
    batch_size=st.integers(1, 9),
    world_size=st.integers(1, 5),
    cut=st.integers(1, 7),
)
def test_whole_batches_deal_every_index_once_in_any_cut(length, batch_size, world_size, cut):
    dealt = []
    for rank in range(world_size):
        order = WholeBatches(length, batch_size, rank=rank, world_size=world_size)
        n = order.samples_per_epoch
        own = [order.indices(0, start, min(start + cut, n)).tolist() for start in range(0, n, cut)]
        flat = [index for indices in own for index in indices]
        assert all(index // batch_size % world_size == rank for index in flat)
        dealt += flat
    assert sorted(dealt) == list(range(length))


def test_targets_of_another_form_are_left_out():
    index, rows = np.arange(2), torch.zeros(2, 3)
    first = batch_of(index, Outcome(torch.tensor(0.0), None, rows, torch.ones(2)), "it")
    other = batch_of(index + 2, Outcome(torch.tensor(0.0), None, rows, "none"), "it")
    assert joined([other, first], "it").targets is None
    assert torch.equal(joined([other, first], "it").index, torch.arange(4))


def test_a_batch_owns_its_memory():
    """A model may give the same tensor again, with other values, for the next batch."""
    rows = torch.zeros(2, 3)
    batch = batch_of(np.arange(2), Outcome(torch.tensor(0.0), None, rows, rows), "it")
    rows.fill_(1.0)
    assert not batch.predictions.any() and batch.targets is not None and not batch.targets.any()


def test_formats_keep_what_they_can(tmp_path):
    """JSON gets words for what is not finite; numpy gets bfloat16 as float32."""
    values = torch.tensor([[1.5, float("nan")], [float("inf"), float("-inf")]], dtype=torch.bfloat16)
    predictions = Predictions(torch.arange(2), values, None)
    for name in ("p.jsonl", "p.npy", "p.safetensors"):
        write(tmp_path / name, predictions)
    rows = [json.loads(line)["predictions"] for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert rows == [[1.5, "NaN"], ["Infinity", "-Infinity"]]
    assert np.load(tmp_path / "p.npy").dtype == np.float32
    assert safetensors.torch.load_file(tmp_path / "p.safetensors")["predictions"].dtype == torch.bfloat16


def test_a_write_that_fails_leaves_the_former_file(tmp_path, monkeypatch):
    path = tmp_path / "p.npy"
    path.write_text("kept")

    def full(file, values, **options):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(RunError, match=r"p\.npy: No space left on device \(ENOSPC\); free space"):
        write(path, Predictions(torch.arange(1), torch.zeros(1), None))
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("p.npy", "kept")]


def test_an_empty_shape_is_no_batch():
    with pytest.raises(ComponentError, match=r"a tensor of shape \(\) .* \(1, \.\.\.\)"):
        batch_of(np.arange(1), Outcome(torch.tensor(0.0), None, torch.tensor(1.0)), "it")
    assert isinstance(batch_of(np.arange(1), Outcome(torch.tensor(0.0), None, torch.ones(1)), "it"), Batch)
