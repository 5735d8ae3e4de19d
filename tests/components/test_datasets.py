"""The built-in datasets: content, batches equal to samples, and bad input."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipeline.components.datasets.digits import Digits
from pipeline.components.datasets.random import Random
from pipeline.components.datasets.tensors import Tensors
from pipeline.components.datasets.text import Text


def assert_batches_are_samples(dataset: Any, indices: list[int]) -> None:
    """A batch fetch gives the stacked samples, and collating it changes nothing."""
    batch = dataset.__getitems__(indices)
    assert dataset.collate_fn(batch) is batch
    for part, column in enumerate(batch):
        assert torch.equal(column, torch.stack([torch.as_tensor(dataset[i][part]) for i in indices]))
    for full, empty in zip(batch, dataset.__getitems__([]), strict=True):
        assert (len(empty), empty.shape[1:], empty.dtype) == (0, full.shape[1:], full.dtype)


def test_digits_split_is_fixed_and_complete() -> None:
    train, test = Digits("train"), Digits("test")
    assert (len(train), len(test)) == (1437, 360)
    # The counts of each label in the test split: any other rule of splitting would change them.
    assert torch.bincount(test.labels).tolist() == [32, 30, 40, 50, 37, 30, 40, 33, 36, 32]
    counts = torch.bincount(torch.cat([train.labels, test.labels])).tolist()
    assert counts == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_pixels_are_scaled_and_shaped() -> None:
    rows, images = Digits("test"), Digits("test", image=True)
    assert rows[0][0].shape == (64,)
    assert images[0][0].shape == (1, 8, 8)
    assert torch.equal(rows.pixels, images.pixels.flatten(1))
    assert (rows.pixels.min().item(), rows.pixels.max().item()) == (0.0, 1.0)
    assert_batches_are_samples(images, [3, 0, 359, 3])


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("abcdé\n" * 20, encoding="utf-8")
    return path


def test_text_windows_are_followed_by_the_next_character(text_file: Path) -> None:
    dataset = Text(text_file, context=7, eval_fraction=0.25)
    assert dataset.vocabulary == "\nabcdé"
    assert len(dataset) == (90 - 1) // 7
    for index in range(len(dataset)):
        tokens, following = dataset[index]
        assert torch.equal(tokens[1:], following[:-1])
        read = "".join(dataset.vocabulary[token] for token in [*tokens.tolist(), following[-1].item()])
        assert read == ("abcdé\n" * 20)[index * 7 : index * 7 + 8]
    assert_batches_are_samples(dataset, [2, 0, 2])


def test_text_windows_do_not_cross_the_split(text_file: Path) -> None:
    train = Text(text_file, context=89, eval_fraction=0.25)
    held_out = Text(text_file, split="eval", context=29, eval_fraction=0.25)
    assert (len(train), len(held_out)) == (1, 1)
    assert train.vocabulary == held_out.vocabulary
    assert torch.equal(torch.cat([train.tokens, held_out.tokens]), torch.cat([train.tokens[:6]] * 20))


def test_text_stride_overlaps_windows(text_file: Path) -> None:
    dataset = Text(text_file, context=8, stride=1)
    assert len(dataset) == 108 - 8
    assert torch.equal(dataset[4][0], dataset[3][1])
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def test_text_refuses_what_it_cannot_use(text_file: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no text file .*absent\.txt"):
        Text(tmp_path / "absent.txt")
    with pytest.raises(ValueError, match=r"eval split of .* has 12 characters.* need 13"):
        Text(text_file, split="eval", context=12)
    assert len(Text(text_file, split="eval", context=11)) == 1
    with pytest.raises(ValueError, match="6 distinct characters, more than vocab_size = 5"):
        Text(text_file, context=4, vocab_size=5)
    text_file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        Text(text_file)
    text_file.write_bytes(b"")
    with pytest.raises(ValueError, match="has 0 characters"):
        Text(text_file)


def test_random_samples_depend_on_seed_and_index_alone() -> None:
    huge = Random(10**15, [2, 3], classes=4)
    assert_batches_are_samples(huge, [10**15 - 1, 0, 7])
    again = Random(8, [2, 3], classes=4)
    assert torch.equal(huge[7][0], again[7][0])
    assert not torch.equal(huge[7][0], huge[6][0])
    assert not torch.equal(huge[7][0], Random(8, [2, 3], classes=4, seed=1)[7][0])
    with pytest.raises(IndexError):
        again[8]


def test_random_targets_are_classes_or_numbers() -> None:
    inputs, classes = Random(400, [5], classes=3).__getitems__(range(400))
    assert sorted(set(classes.tolist())) == [0, 1, 2]
    assert abs(inputs.mean().item()) < 0.1
    assert inputs.std().item() == pytest.approx(1, abs=0.1)
    assert_batches_are_samples(Random(4, [], target_shape=[2]), [0, 3])
    for both_or_neither in ({}, {"classes": 2, "target_shape": [1]}):
        with pytest.raises(ValueError, match="exactly one of classes and target_shape"):
            Random(4, [2], **both_or_neither)


@pytest.fixture
def tensor_files(tmp_path: Path) -> dict[str, Path]:
    inputs, targets = torch.randn(20, 3), torch.arange(20)
    files = {"inputs": tmp_path / "inputs.npy", "targets": tmp_path / "targets.npy"}
    np.save(files["inputs"], inputs.numpy())
    np.save(files["targets"], targets.numpy())
    files["both"] = tmp_path / "both.safetensors"
    save_file({"x": inputs, "half": inputs.bfloat16(), "y": targets}, files["both"])
    return files


def test_tensors_are_the_files_rows(tensor_files: dict[str, Path]) -> None:
    from_npy = Tensors(tensor_files["inputs"], tensor_files["targets"])
    both = tensor_files["both"]
    from_safetensors = Tensors(both, both, inputs_key="x", targets_key="y")
    assert len(from_npy) == len(from_safetensors) == 20
    for dataset in (from_npy, from_safetensors, Tensors(both, both, inputs_key="half", targets_key="y")):
        assert_batches_are_samples(dataset, [19, 0, 19, 4])
        assert dataset.__getitems__([19, 4])[1].tolist() == [19, 4]
    assert torch.equal(from_npy.__getitems__([5, 2])[0], from_safetensors.__getitems__([5, 2])[0])
    assert Tensors(both, both, "half", "y")[0][0].dtype == torch.bfloat16


def test_tensors_pickle_as_their_paths(tensor_files: dict[str, Path]) -> None:
    dataset = Tensors(tensor_files["both"], tensor_files["targets"], inputs_key="x")
    packed = pickle.dumps(dataset)
    assert len(packed) < 1000
    assert torch.equal(pickle.loads(packed)[7][0], dataset[7][0])


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_tensors_are_mapped_not_read(tmp_path: Path, kind: str) -> None:
    rows = np.zeros((1 << 16, 256), dtype=np.float32)  # 64 MiB
    path = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(path, rows)
    else:
        save_file({"rows": torch.from_numpy(rows)}, path)
    del rows
    before = _private_bytes()
    dataset = Tensors(path, path)
    dataset.__getitems__([0, 65535])
    assert _private_bytes() - before < 16 << 20


def _private_bytes() -> int:
    """Memory of this process that no file backs."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s*(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def test_tensors_refuse_what_they_cannot_use(tensor_files: dict[str, Path], tmp_path: Path) -> None:
    inputs, both = tensor_files["inputs"], tensor_files["both"]
    with pytest.raises(FileNotFoundError, match=r"absent\.npy; set the dataset's targets"):
        Tensors(inputs, tmp_path / "absent.npy")
    with pytest.raises(ValueError, match=r"holds \['half', 'x', 'y'\], got targets_key = None"):
        Tensors(inputs, both)
    with pytest.raises(ValueError, match="got inputs_key = 'z'"):
        Tensors(both, both, inputs_key="z", targets_key="y")
    np.save(tmp_path / "short.npy", np.zeros(19))
    with pytest.raises(ValueError, match=r"20 rows.*has 19"):
        Tensors(inputs, tmp_path / "short.npy")
    np.save(tmp_path / "scalar.npy", np.float32(1))
    with pytest.raises(ValueError, match="got a single number"):
        Tensors(tmp_path / "scalar.npy", inputs)
    for name in ("rows.csv", "broken.safetensors"):
        (tmp_path / name).write_text("1,2,3")
        with pytest.raises(ValueError, match=f"{name}"):
            Tensors(tmp_path / name, inputs)
