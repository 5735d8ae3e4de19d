"""CKP-10: writers that fail, limits and full disks, at any byte."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from pipeline.errors import CheckpointError
from pipeline.runs.retention import Retention
from pipeline.runs.store import CheckpointStore, WriteError


def content(step: int) -> dict[str, bytes]:
    return {"model.safetensors": bytes([step]) * 3000, "state.pt": bytes([step]) * 100}


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("first", [0, 1, 2999, 3000, 3001, 3099])
def test_a_writer_that_fails_at_any_byte_leaves_nothing(tmp_path: Path, first: int) -> None:
    store = CheckpointStore(tmp_path / "c")
    store.save(1, content(1))

    def fail(file: BinaryIO) -> None:
        file.write(b"x" * first)
        file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        WriteError, match=r"step-000002: No space left on device \(ENOSPC\); needed at least"
    ) as caught:
        store.save(2, {"a": b"y" * 100, "b": fail})
    assert caught.value.needed == max(3100, 100 + first)
    assert caught.value.free is not None
    assert hidden(store.folder) == []
    assert [one.step for one in store.checkpoints()] == [1]
    assert store.resolve("last").step == 1


@pytest.mark.parametrize("error", [ValueError("serialiser"), KeyboardInterrupt(), SystemExit(3)])
def test_other_errors_of_a_writer_pass_through(tmp_path: Path, error: BaseException) -> None:
    store = CheckpointStore(tmp_path / "c")
    store.save(1, content(1))

    def fail(file: BinaryIO) -> None:
        file.write(b"x" * 10)
        raise error

    with pytest.raises(type(error)) as caught:
        store.save(2, {"b": fail})
    assert caught.value is error
    assert hidden(store.folder) == []
    assert_sound_step_one(store)


def assert_sound_step_one(store: CheckpointStore) -> None:
    sound, problems = store.newest_sound()
    assert sound is not None and sound.step == 1 and problems == []


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """RLIMIT_FSIZE inside: writing past it gives EFBIG, at exactly that byte. pytest's own output too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def lazily(data: bytes) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        for start in range(0, len(data), 7):
            file.write(data[start : start + 7])

    return write


def wrapping(data: bytes) -> Callable[[BinaryIO], None]:
    """As torch.save does, which turns the system's error into one of its own."""

    def write(file: BinaryIO) -> None:
        try:
            file.write(data)
            file.flush()
        except OSError:
            raise RuntimeError("PytorchStreamWriter failed writing file") from None
        finally:
            file.write(b"end")

    return write


@pytest.mark.parametrize("style", [bytes, lazily, wrapping])
@pytest.mark.parametrize("limit", [0, 1, 100, 101, 1500, 2999])
def test_a_limit_at_any_byte_is_reported_as_such(
    tmp_path: Path, limit: int, style: Callable[[bytes], Any]
) -> None:
    store = CheckpointStore(tmp_path / "c")
    store.save(1, content(1))
    files = {name: style(data) for name, data in content(2).items()}
    too_large = r"File too large \(EFBIG\).*ulimit -f"
    with pytest.raises(WriteError, match=too_large) as caught, file_size_limit(limit):
        store.save(2, files)
    assert caught.value.disk_full
    assert hidden(store.folder) == []
    assert_sound_step_one(store)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for 1 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_a_disk_that_fills_up(small_disk: Path) -> None:
    store = CheckpointStore(small_disk / "checkpoints", retention=Retention(keep_last=2))
    big = bytes(400_000)
    store.save(1, {"a": big})
    store.save(2, {"a": big})
    with pytest.raises(WriteError, match=r"ENOSPC\); needed at least 400000 bytes, free \d+ bytes") as caught:
        store.save(3, {"a": big})
    assert caught.value.free is not None and 0 < caught.value.free < 400_000
    assert [one.step for one in store.checkpoints()] == [2, 1]
    assert store.newest_sound()[1] == []
    with pytest.raises(WriteError, match="ENOSPC"):
        store.require_room(400_000)
    store.require_room(100_000)
    assert hidden(store.folder) == []


def test_a_disk_mounted_read_only(small_disk: Path) -> None:
    store = CheckpointStore(small_disk / "checkpoints")
    store.save(1, content(1))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(WriteError, match=r"Read-only file system \(EROFS\).*make it writable"):
        store.save(2, content(2))
    with pytest.raises(WriteError, match="EROFS"):
        store.require_room(1)
    assert_sound_step_one(store)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")
    store = CheckpointStore(tmp_path / "c")
    with pytest.raises(CheckpointError, match="ENOTDIR"):
        store.checkpoints()
    with pytest.raises(CheckpointError, match=r"ENOTDIR|EEXIST"):
        store.save(1, content(1))
    with pytest.raises(WriteError):
        store.require_room(1)
    assert (tmp_path / "c").read_text() == "mine"
