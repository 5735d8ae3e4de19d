"""A file that knows the size and hash of what was written into it."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pipeline.runs.manifest import FileEntry

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Writer = Callable[[BinaryIO], object]
"""Writes one file's content, front to back: the file it is given cannot seek."""

_BUFFER = 1 << 20


def write_hashed(path: Path, content: bytes | Writer) -> FileEntry:
    """Write a new file, force it to the disk, and say what is in it.

    Raises:
        OSError: if it cannot be written, with the path as ``filename``; also where the writer turned
            it into an error of its own. A part of the file may be left.
    """
    with path.open("xb", buffering=0) as file:
        raw = _HashingRaw(file)
        try:
            _fill(raw, content)
        except BaseException:
            raw.drop_rest()  # what is still buffered must not raise again when the buffer is collected
            if raw.error is not None:
                raise OSError(raw.error.errno, raw.error.strerror, str(path)) from raw.error
            raise
        if raw.error is not None:  # the writer swallowed it
            raise OSError(raw.error.errno, raw.error.strerror, str(path)) from raw.error
        os.fsync(file.fileno())
        stored = os.fstat(file.fileno()).st_size
    if stored != raw.size:
        raise OSError(errno.EIO, f"{stored} of {raw.size} bytes arrived", str(path))
    return FileEntry(raw.size, raw.digest.hexdigest())


def _fill(raw: _HashingRaw, content: bytes | Writer) -> None:
    buffered = io.BufferedWriter(raw, _BUFFER)
    if isinstance(content, bytes):
        buffered.write(content)
    else:
        content(buffered)
    buffered.flush()


class _HashingRaw(io.RawIOBase):
    """Passes bytes on to a file and counts and hashes those that it took.

    It raises the first error of the file once and takes everything after that for nothing:
    serialisers written in C++ write again while they are torn down, and end the process if that raises.
    """

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self._dropping = False
        self.size = 0
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def drop_rest(self) -> None:
        self._dropping = True

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data).cast("B")
        if self._dropping:
            return len(view)
        try:
            taken = self._file.write(view)
        except OSError as error:
            self.error, self._dropping = error, True
            raise
        self.digest.update(view[:taken])
        self.size += taken
        return taken
