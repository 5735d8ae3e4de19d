"""Making a run folder: all of it or none."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import RunError
from pipeline.runs.files import reason, remedy, sync_folder, temporary, write_atomic, write_new
from pipeline.runs.layout import RunFolder, folder_name
from pipeline.runs.leftovers import clear_leftovers
from pipeline.runs.record import Record, to_json

_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


def create(
    runs_dir: Path,
    record: Record,
    *,
    config_toml: str,
    sources: Iterable[tuple[Path, bytes]] = (),
    patch: str = "",
) -> RunFolder:
    """Make the folder of a new run, with its config, its sources and its first record.

    It is prepared under a hidden name and appears at once, complete; what a killed process left of one
    is removed. A name that is taken, by a run
    of the same second, gets the suffix -2, -3 and so on. A missing ``runs_dir`` is made where its
    parent exists.

    Args:
        record: gives the name, the time and the fingerprint that the folder is named after.
        sources: the user's files as (path, content); of the path only the last part is kept.
        patch: the uncommitted changes of the code.

    Raises:
        RunError: if it cannot be made; nothing is left behind.
    """
    first = str(folder_name(record.name, record.created, record.fingerprint))
    staged = temporary(runs_dir / first)
    made: list[Path] = []
    try:
        if _make_runs_dir(runs_dir):
            made.append(runs_dir)
        clear_leftovers(runs_dir)
        staged.mkdir()
        made.append(staged)
        _fill(RunFolder(staged), record, config_toml, sources, patch)
        made[-1] = _publish(staged, runs_dir, record)
        sync_folder(runs_dir)
        return RunFolder(made[-1])
    except BaseException as error:
        _unmake(made, runs_dir)
        if isinstance(error, OSError):
            raise RunError(f"cannot make a run folder in {runs_dir}: {_why(error)}") from error
        raise


def replace_config(folder: RunFolder, config_toml: str, *, attempt: int) -> None:
    """Put the config of a resumed run in force; what ``attempt`` (the last one) had is kept beside it.

    Raises:
        RunError: if it cannot be written; the former config stands.
    """
    try:
        former = folder.config.read_bytes()
        if former == config_toml.encode():
            return
        write_atomic(folder.former_config(attempt), former)
        write_atomic(folder.config, config_toml.encode())
    except OSError as error:
        raise RunError(f"cannot write {folder.config}: {_why(error)}") from error


def _make_runs_dir(runs_dir: Path) -> bool:
    if runs_dir.is_dir():
        return False
    try:
        runs_dir.mkdir()
    except FileExistsError:
        if not runs_dir.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "", str(runs_dir)) from None
        return False  # another run made it just now
    return True


def _unmake(made: list[Path], runs_dir: Path) -> None:
    for path in reversed(made):
        if path != runs_dir:
            shutil.rmtree(path, ignore_errors=True)  # the error on its way matters more than a leftover
        elif not any(path.iterdir()):
            path.rmdir()


def _fill(
    folder: RunFolder, record: Record, config_toml: str, sources: Iterable[tuple[Path, bytes]], patch: str
) -> None:
    write_new(folder.config, config_toml.encode())
    if patch:
        write_new(folder.patch, patch.encode())
    folder.source.mkdir()
    for name, content in _named_apart(sources):
        write_new(folder.source / name, content)
    sync_folder(folder.source)
    write_new(folder.record, to_json(record))
    sync_folder(folder.path)


def _named_apart(sources: Iterable[tuple[Path, bytes]]) -> list[tuple[str, bytes]]:
    """Files by their last part; a second ``base.toml`` of another folder becomes ``base-2.toml``."""
    named: dict[str, tuple[str, bytes]] = {}
    for path, content in dict(sources).items():
        name, copy = path.name, 1
        while name.casefold() in named:  # also on file systems that ignore case
            copy += 1
            name = f"{path.stem}-{copy}{path.suffix}"
        named[name.casefold()] = (name, content)
    return list(named.values())


def _publish(staged: Path, runs_dir: Path, record: Record) -> Path:
    copy = 1
    while True:
        target = runs_dir / str(folder_name(record.name, record.created, record.fingerprint, copy))
        try:
            return staged.rename(target)  # fails on a folder with content: the first one keeps the name
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        copy += 1


def _why(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"{reason(error)}; make its parent folder first, or name another with --runs-dir"
    return f"{reason(error)}; {remedy(error)} with --runs-dir"
