"""Small files written whole or not at all, and the words for what the system refused."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from threading import get_native_id

from pipeline.runs.leftovers import hidden_name

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers that say: there is no room for more bytes."""

_CHUNK = 1 << 16


def reason(error: OSError) -> str:
    """The system's own words with the symbol: ``No space left on device (ENOSPC)``."""
    if error.errno is None:
        return str(error)
    return f"{os.strerror(error.errno)} ({errno.errorcode.get(error.errno, error.errno)})"


def remedy(error: OSError) -> str:
    """What the user can do about a refused write."""
    if error.errno == errno.EFBIG:
        return "raise the limit on file sizes (ulimit -f)"
    if error.errno in FULL:
        return "free space there, or use another folder"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "make it writable, or use another folder"
    return "check the path and the file system"


def read_whole(path: str) -> bytes:
    """A small file's content.

    With thousands of runs a Path, a file object and a buffer for each take as long as the reading.

    Raises:
        OSError: if it cannot be read.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(file, _CHUNK), b""))
    finally:
        os.close(file)


def temporary(path: Path) -> Path:
    """Where this thread prepares ``path``: beside it, hidden, marked with the thread and its process."""
    return path.with_name(hidden_name("tmp", f"{path.name}-{get_native_id()}"))


def write_new(path: Path, data: bytes) -> None:
    """Write a file and force it to the disk; an interrupted call may leave a part of it.

    Raises:
        OSError: if it cannot be written.
    """
    with path.open("wb") as file:  # open, not mkstemp: permissions follow the umask
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` so that readers, and a crash at any instant, see the old content or the new.

    Raises:
        OSError: if it cannot be written; the old content stands and nothing is left beside it.
    """
    beside = temporary(path)
    try:
        write_new(beside, data)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk, so that a rename survives a power cut.

    Raises:
        OSError: if the folder cannot be opened or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot do it
            raise
    finally:
        os.close(descriptor)


def free_bytes(path: Path) -> int | None:
    """Bytes that may still be written below ``path``, which need not exist; None: it cannot be told."""
    for folder in (path, *path.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
