from __future__ import annotations

import hashlib
import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest

from pipeline.errors import CheckpointError
from pipeline.runs.checkpoints import Checkpoints
from pipeline.runs.retention import Retention, Score
from pipeline.runs.store import CheckpointStore


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", retention=Retention(keep_last=2))


def content(step: int) -> dict[str, bytes]:
    return {"model.safetensors": f"weights {step}".encode() * 100, "state.pt": f"state {step}".encode()}


def accuracy(value: float) -> Score:
    return Score("eval/accuracy", value, "max")


def names(store: Checkpoints) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def test_a_checkpoint_is_a_folder_with_a_manifest(store: CheckpointStore) -> None:
    def write_state(file: BinaryIO) -> None:
        file.write(b"one")
        file.write(b"two")

    made = store.save(460, {"model.safetensors": b"weights", "state.pt": write_state}, info={"epoch": 3})
    assert made.path == store.folder / "step-000460"
    assert (made.path / "state.pt").read_bytes() == b"onetwo"
    manifest = json.loads((made.path / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["step"] == 460
    assert manifest["info"] == {"epoch": 3}
    assert manifest["files"] == {
        "model.safetensors": {"size": 7, "sha256": hashlib.sha256(b"weights").hexdigest()},
        "state.pt": {"size": 6, "sha256": hashlib.sha256(b"onetwo").hexdigest()},
    }
    created = datetime.fromisoformat(manifest["created"])
    assert abs((datetime.now(UTC) - created).total_seconds()) < 3600
    assert (store.folder / "last").read_text() == "step-000460\n"
    assert names(store) == ["last", "step-000460"]
    assert store.verify("step-000460") == []


def test_best_and_last_are_kept_and_named(store: CheckpointStore) -> None:
    for step, value in [(1, 0.5), (2, 0.9), (3, math.nan), (4, 0.9), (5, 0.1)]:
        store.save(step, content(step), score=accuracy(value))
    assert names(store) == ["best", "last", "step-000002", "step-000004", "step-000005"]
    assert store.resolve("best").step == 2
    assert store.resolve("last").step == 5
    assert store.resolve("step-000004").step == 4
    assert [one.step for one in store.checkpoints()] == [5, 4, 2]


def test_nan_alone_is_no_best_and_its_manifest_is_read(store: CheckpointStore) -> None:
    store.save(1, content(1), score=accuracy(math.nan))
    score = store.manifest("step-000001").score
    assert score is not None and math.isnan(score.value)
    with pytest.raises(CheckpointError, match=r"no best checkpoint: .*there are step-000001"):
        store.resolve("best")


def test_the_same_step_is_replaced(store: CheckpointStore) -> None:
    store.save(1, {"a": b"old", "gone": b""})
    store.save(1, {"a": b"new"})
    assert (store.folder / "step-000001" / "a").read_bytes() == b"new"
    assert sorted(path.name for path in store.at(1).path.iterdir()) == ["a", "manifest.json"]
    assert names(store) == ["last", "step-000001"]


def test_steps_beyond_six_digits_are_the_newest(store: CheckpointStore) -> None:
    for step in (999_999, 1_000_000):
        store.save(step, content(step))
    assert [one.name for one in store.checkpoints()] == ["step-1000000", "step-999999"]


def test_rewinding_deletes_what_comes_after(store: CheckpointStore) -> None:
    store.retention = Retention(keep_last=None)
    for step, value in [(1, 0.1), (2, 0.2), (3, 0.3)]:
        store.save(step, content(step), score=accuracy(value))
    assert [one.step for one in store.rewind(2)] == [3]
    assert names(store) == ["best", "last", "step-000001", "step-000002"]
    assert (store.resolve("best").step, store.resolve("last").step) == (2, 2)
    assert [one.step for one in store.rewind(0)] == [2, 1]
    assert names(store) == []


def test_no_checkpoints(store: CheckpointStore) -> None:
    assert store.checkpoints() == [] and store.clean() == []
    assert store.newest_sound() == (None, [])
    with pytest.raises(CheckpointError, match="no last checkpoint: none was written"):
        store.resolve("last")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../step-000001",
        "step-000001/../x",
        "/etc",
        "step-1",
        "step-0000001",
        "step-000001\n",
        "manifest.json",
    ],
)
def test_names_that_are_no_checkpoint_are_refused(store: CheckpointStore, name: str) -> None:
    store.save(1, content(1))
    for ask in (store.resolve, store.verify, store.manifest):
        with pytest.raises(CheckpointError):
            ask(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\\b", "manifest.json", "a\0"])
def test_file_names_with_folders_are_not_written(store: CheckpointStore, name: str) -> None:
    with pytest.raises(CheckpointError, match="plain name"):
        store.save(1, {name: b"x"})
    assert names(store) == []


@pytest.mark.parametrize("text", ["../../etc", "", "step-1", "/abs", "\xff"])
def test_a_pointer_that_leads_elsewhere_is_refused(store: CheckpointStore, text: str) -> None:
    store.save(1, content(1))
    (store.folder / "last").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match="expected a checkpoint"):
        store.resolve("last")


def test_a_pointer_to_nothing_falls_back_to_the_newest(store: CheckpointStore) -> None:
    store.save(1, content(1))
    (store.folder / "last").write_text("step-000009\n")
    assert store.resolve("last").step == 1


# Damage


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def outside(path: Path) -> None:
    target = path.parent.parent.parent / "outside"
    path.rename(target)
    path.symlink_to(target)


def manifest_names(name: str) -> str:
    return json.dumps(
        {
            "format": 1,
            "step": 2,
            "created": "2026-01-01T00:00:00Z",
            "files": {name: {"size": 0, "sha256": ""}},
        }
    )


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink, outside, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("file", ["model.safetensors", "state.pt", "manifest.json"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(
    store: CheckpointStore, file: str, damage: object
) -> None:
    """CKP-01: a flipped byte, a truncated file, a missing file, an empty manifest."""
    for step in (1, 2):
        store.save(step, content(step))
    assert callable(damage)
    damage(store.folder / "step-000002" / file)
    sound, problems = store.newest_sound()
    assert sound is not None and sound.step == 1
    assert any(f"step-000002/{file}" in problem for problem in problems)
    assert store.verify("step-000002") == problems
    assert store.verify("step-000001") == []


def test_no_bit_of_a_manifest_can_make_damaged_weights_sound(store: CheckpointStore) -> None:
    store.save(1, {"a": b"weights"})
    path = store.folder / "step-000001" / "manifest.json"
    good = path.read_bytes()
    (store.folder / "step-000001" / "a").write_bytes(b"weighty")
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        assert store.verify("step-000001"), position


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no manifest"),
        ("{}", "is no manifest"),
        ("[1]", "is no manifest"),
        ('{"step": 2', "is no manifest"),
        (manifest_names("../../secret"), "names without folders"),
        (manifest_names("/etc/passwd"), "names without folders"),
        (manifest_names(".."), "names without folders"),
        (manifest_names("x").replace('"format": 1', '"format": 2'), "format 2"),
    ],
)
def test_a_bad_manifest_is_a_problem(store: CheckpointStore, text: str, message: str) -> None:
    store.save(2, content(2))
    (store.folder / "step-000002" / "manifest.json").write_text(text)
    (problem,) = store.verify("step-000002")
    assert message in problem
    assert store.newest_sound()[0] is None


def test_a_checkpoint_that_is_a_link_is_refused(store: CheckpointStore, tmp_path: Path) -> None:
    store.save(1, content(1))
    (store.folder / "step-000001").rename(tmp_path / "elsewhere")
    (store.folder / "step-000001").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="symbolic link"):
        store.resolve("step-000001")
    sound, problems = store.newest_sound()
    assert sound is None and "symbolic link" in problems[0]


def test_a_damaged_checkpoint_does_not_stop_the_next_save(store: CheckpointStore) -> None:
    store.save(1, content(1), score=accuracy(0.9))
    (store.folder / "step-000001" / "manifest.json").write_text("")
    store.save(2, content(2), score=accuracy(0.1))
    assert store.resolve("best").step == 2
