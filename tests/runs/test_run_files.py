from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pipeline.runs.files import free_bytes, reason, write_atomic


def test_it_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_atomic(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_failure_keeps_the_former_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"former")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, operation, full)
        with pytest.raises(OSError, match="No space left"):
            write_atomic(path, b"new")
    assert path.read_bytes() == b"former"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_system_that_cannot_flush_folders_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    write_atomic(tmp_path / "file", b"x")
    assert (tmp_path / "file").read_bytes() == b"x"


def test_the_reason_has_words_and_symbol() -> None:
    assert reason(OSError(errno.EDQUOT, "")) == "Disk quota exceeded (EDQUOT)"


def test_free_bytes_of_a_folder_yet_to_be_made(tmp_path: Path) -> None:
    free = free_bytes(tmp_path / "not" / "yet")
    assert free is not None and free > 0
