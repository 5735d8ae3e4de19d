"""Reading a run's checkpoints: which there are, which are sound, which one a name means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import CheckpointError
from pipeline.runs.files import reason
from pipeline.runs.manifest import Manifest, find_problems, read_manifest

_NAME = re.compile(r"step-([0-9]{6,})")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's place; whether it is sound is another question."""

    step: int
    """Optimizer steps done."""
    path: Path

    @property
    def name(self) -> str:
        return self.path.name


def checkpoint_name(step: int) -> str:
    """The folder's name: ``step-000460``."""
    return f"step-{step:06d}"


class Checkpoints:
    """The checkpoints in a run's folder ``checkpoints``, which need not exist. It writes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def checkpoints(self) -> list[Checkpoint]:
        """All of them, newest first, sound or not.

        Raises:
            CheckpointError: if the folder cannot be read.
        """
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"{self.folder}: cannot be read: {reason(error)}") from error
        steps = {int(match[1]) for name in names if (match := _NAME.fullmatch(name))}
        found = [self.at(step) for step in sorted(steps, reverse=True)]
        return [one for one in found if one.path.is_dir()]

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step, whether it exists or not."""
        return Checkpoint(step, self.folder / checkpoint_name(step))

    def manifest(self, name: str) -> Manifest:
        """The manifest of a checkpoint.

        Raises:
            CheckpointError: if there is no such checkpoint, or its manifest is damaged.
        """
        return read_manifest(self._named(name).path)

    def verify(self, name: str) -> list[str]:
        """What is wrong with a checkpoint, one line each; empty if it is sound. Reads every byte.

        Raises:
            CheckpointError: if there is no such checkpoint.
        """
        checkpoint = self._named(name)
        return find_problems(checkpoint.path, checkpoint.step)

    def newest_sound(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is as it was written, and what is wrong with those passed over."""
        problems: list[str] = []
        for checkpoint in self.checkpoints():
            found = find_problems(checkpoint.path, checkpoint.step)
            if not found:
                return checkpoint, problems
            problems += found
        return None, problems

    def resolve(self, ref: str) -> Checkpoint:
        """The checkpoint that ``last``, ``best`` or a folder's name means.

        Raises:
            CheckpointError: if there is none; a path is refused.
        """
        if ref not in ("last", "best"):
            return self._named(ref)
        pointed = self.pointer(ref)
        if pointed is not None and self.at(pointed).path.is_dir():
            return self.at(pointed)
        newest = next(iter(self.checkpoints()), None)
        if ref == "best" or newest is None:
            why = "no checkpoint has a monitored metric" if newest else "none was written"
            raise CheckpointError(f"{self.folder}: has no {ref} checkpoint: {why}{self._choice()}")
        return newest  # the run was killed before it could say so

    def pointer(self, ref: str) -> int | None:
        """The step that the text file ``last`` or ``best`` names; None if there is no such file.

        Raises:
            CheckpointError: if it names no checkpoint, or cannot be read.
        """
        path = self.folder / ref
        if path.is_symlink():
            raise CheckpointError(f"{path}: is a symbolic link, which may lead anywhere")
        try:
            text = path.read_bytes().decode(errors="replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {reason(error)}") from error
        match = _NAME.fullmatch(text)
        if match is None:
            raise CheckpointError(f"{path}: names {text[:80]!r}; expected a checkpoint as step-000460")
        return int(match[1])

    def _named(self, name: str) -> Checkpoint:
        match = _NAME.fullmatch(name)
        if match is None:
            raise CheckpointError(
                f"{name!r} is no checkpoint's name; expected last, best or one as step-000460"
            )
        checkpoint = self.at(int(match[1]))
        if checkpoint.name != name or not checkpoint.path.is_dir():
            raise CheckpointError(f"{self.folder}: has no checkpoint {name}{self._choice()}")
        if checkpoint.path.is_symlink():
            raise CheckpointError(f"{checkpoint.path}: is a symbolic link, which may lead anywhere")
        return checkpoint

    def _choice(self) -> str:
        names = [one.name for one in self.checkpoints()]
        return f"; there are {', '.join(names)}" if names else ""
