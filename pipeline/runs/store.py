"""Writing a run's checkpoints: each appears at once and complete, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.errors import CheckpointError
from pipeline.runs.checkpoints import Checkpoint, Checkpoints
from pipeline.runs.files import FULL, free_bytes, reason, remedy, sync_folder, write_atomic
from pipeline.runs.hashed_file import Writer, write_hashed
from pipeline.runs.leftovers import Leftover, find_leftovers, hidden_name, remove
from pipeline.runs.manifest import NAME, Manifest, is_plain_name, read_manifest
from pipeline.runs.retention import Retention, Score, Scored, best_of, surplus

_PROBE = bytes(4096)


class WriteError(CheckpointError):
    """The store's folder refuses a change; the checkpoints in it stand."""

    def __init__(
        self, path: Path, error: OSError, *, doing: str = "write", needed: int | None = None
    ) -> None:
        self.path = path
        self.errno = error.errno
        self.needed = needed
        """Bytes of the checkpoint, at least; None: it was not about bytes."""
        self.free = free_bytes(path)
        """Bytes free once the unfinished checkpoint was removed; None: it cannot be told."""
        self.disk_full = error.errno in FULL
        """Whether it failed for want of room: disk, quota or limit."""
        room = "" if needed is None else f"; needed at least {needed} bytes, free {self.free} bytes"
        super().__init__(f"cannot {doing} {path}: {reason(error)}{room}; {remedy(error)}")


class CheckpointStore(Checkpoints):
    """The checkpoints of a run, for the one process that writes them; any may read meanwhile.

    Args:
        folder: made when the first checkpoint is saved.
        retention: which old checkpoints each save deletes.
    """

    def __init__(self, folder: Path, *, retention: Retention | None = None) -> None:
        super().__init__(folder)
        self.retention = retention or Retention()

    def save(
        self,
        step: int,
        files: Mapping[str, bytes | Writer],
        *,
        info: Mapping[str, Any] | None = None,
        score: Score | None = None,
    ) -> Checkpoint:
        """Write a checkpoint, set ``last`` and ``best``, then delete the surplus.

        Every file is forced to the disk and checked under a hidden name before the folder is renamed.
        A checkpoint of the same step is replaced.

        Args:
            step: optimizer steps done.
            files: by plain name, the content or a callable that writes it into the file it is given.
            info: plain data for the manifest.
            score: the monitored metric; ``best`` follows from the scores of all checkpoints kept.

        Raises:
            WriteError: if it cannot be written; nothing unfinished is left and earlier ones stand.
        """
        final = self.at(step)
        staged = self._hidden("tmp", final.name)
        usual = self._usual_size()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove(staged)  # of an earlier failure, where not even that could be removed
            _stage(staged, step, files, info or {}, score)
            self._publish(staged, final.path)
        except BaseException as error:
            needed = max(usual, _bytes_in(staged))
            shutil.rmtree(staged, ignore_errors=True)  # the error on its way matters more
            if isinstance(error, OSError):
                raise WriteError(final.path, error, needed=needed) from error
            raise
        self._point()
        for name in surplus(self._scored(), self.retention):
            self._delete(self.folder / name)
        return final

    def rewind(self, step: int) -> list[Checkpoint]:
        """Delete the checkpoints past ``step``, where a resumed run goes on; those that it deleted.

        Raises:
            WriteError: if one cannot be removed.
        """
        gone = [one for one in self.checkpoints() if one.step > step]
        for one in gone:
            self._delete(one.path)
        if gone:
            self._point()
        return gone

    def clean(self) -> list[str]:
        """Repair what a killed writer left; the writer calls it before anything else.

        Unfinished checkpoints and deletions are removed, a checkpoint that was moved away for a
        replacement that never came is put back, and ``last`` and ``best`` are set right. What
        belongs to another process that lives is left alone.

        Returns:
            The hidden names that were dealt with.

        Raises:
            WriteError: if one cannot be removed.
        """
        handled = [one for one in find_leftovers(self.folder) if one.mine or one.abandoned]
        for leftover in handled:
            self._repair(leftover)
        if self.folder.is_dir():
            self._point()
        return [one.path.name for one in handled]

    def require_room(self, needed: int) -> None:
        """Find out early whether a checkpoint of ``needed`` bytes can be written.

        Raises:
            WriteError: if the folder takes no file, or has less room.
        """
        probe = self.folder / ".probe"
        with self._refusing(self.folder, needed=needed):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(probe, _PROBE)
            probe.unlink()
            free = free_bytes(self.folder)
            if free is not None and free < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _publish(self, staged: Path, final: Path) -> None:
        former = self._hidden("old", final.name) if os.path.lexists(final) else None
        if former is not None:
            final.rename(former)  # a folder cannot be renamed over another; clean() undoes a kill here
        try:
            staged.rename(final)
        except BaseException:
            if former is not None:
                former.rename(final)
            raise
        sync_folder(self.folder)
        if former is not None:
            remove(former)

    def _point(self) -> None:
        scored = self._scored()
        newest = max(scored, key=lambda one: one.step, default=None)
        for ref, target in (("last", newest), ("best", best_of(scored))):
            path = self.folder / ref
            with self._refusing(path):
                if target is None:
                    path.unlink(missing_ok=True)
                elif not path.is_file() or path.read_bytes() != f"{target.name}\n".encode():
                    write_atomic(path, f"{target.name}\n".encode())

    def _scored(self) -> list[Scored]:
        return [Scored(one.name, one.step, _score_of(one)) for one in self.checkpoints()]

    def _delete(self, path: Path) -> None:
        hidden = self._hidden("del", path.name)
        with self._refusing(path, doing="delete"):
            remove(hidden)
            path.rename(hidden)  # so that a kill in between leaves no checkpoint with files missing
            remove(hidden)

    def _repair(self, leftover: Leftover) -> None:
        original = self.folder / leftover.name
        with self._refusing(leftover.path, doing="delete"):
            if leftover.kind == "old" and not original.exists():
                leftover.path.rename(original)
            else:
                remove(leftover.path)

    def _usual_size(self) -> int:
        """Bytes of the newest checkpoint, the best guess at the next one's."""
        for checkpoint in self.checkpoints():
            try:
                return read_manifest(checkpoint.path).size
            except CheckpointError:
                continue  # a damaged one is no guide
        return 0

    def _hidden(self, kind: str, name: str) -> Path:
        return self.folder / hidden_name(kind, name)

    @contextmanager
    def _refusing(self, path: Path, *, doing: str = "write", needed: int | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriteError(path, error, doing=doing, needed=needed) from error


def _stage(
    folder: Path,
    step: int,
    files: Mapping[str, bytes | Writer],
    info: Mapping[str, Any],
    score: Score | None,
) -> None:
    for name in files:
        if not is_plain_name(name) or name == NAME:
            raise CheckpointError(f"a checkpoint's file cannot be called {name!r}; expected a plain name")
    folder.mkdir()
    entries = {name: write_hashed(folder / name, content) for name, content in files.items()}
    manifest = Manifest(step=step, files=entries, created=datetime.now(UTC), score=score, info=info)
    write_hashed(folder / NAME, manifest.to_json())
    sync_folder(folder)


def _score_of(checkpoint: Checkpoint) -> Score | None:
    try:
        return read_manifest(checkpoint.path).score
    except CheckpointError:
        return None  # damaged: never the best; verify() reports it


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
