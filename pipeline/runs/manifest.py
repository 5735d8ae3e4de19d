"""manifest.json: what a checkpoint must consist of, and whether it does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from pipeline.errors import CheckpointError
from pipeline.runs.files import reason
from pipeline.runs.retention import Score

NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class FileEntry:
    """One file as it was written."""

    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal."""


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's description of itself; it is written last."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(ser_json_inf_nan="strings", extra="ignore")

    step: int
    files: Mapping[str, FileEntry]
    """By name; a name holds no folder."""
    created: datetime
    score: Score | None = None
    """The monitored metric, where there is one."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the writer wants to be known without reading the files."""
    format: int = FORMAT

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files.values())

    def to_json(self) -> bytes:
        """The bytes of manifest.json."""
        return _MANIFEST.dump_json(self, indent=2) + b"\n"


_MANIFEST = TypeAdapter(Manifest)


def is_plain_name(name: str) -> bool:
    """Whether a name stays in the folder it is looked up in."""
    return name not in ("", ".", "..") and not any(mark in name for mark in "/\\\0")


def read_manifest(folder: Path) -> Manifest:
    """Read a checkpoint folder's manifest.

    Raises:
        CheckpointError: if it is missing, unreadable, of a later format, or names files outside.
    """
    path = folder / NAME
    if folder.is_symlink() or path.is_symlink():
        raise CheckpointError(f"{path}: is reached by a symbolic link, which may lead anywhere")
    try:
        manifest = _MANIFEST.validate_json(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {reason(error)}") from error
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise CheckpointError(f"{path}: is no manifest: {place} {fault['msg']}") from None
    if manifest.format > FORMAT:
        raise CheckpointError(
            f"{path}: has format {manifest.format}, this version reads up to {FORMAT}; update pipeline-ddp"
        )
    for name in manifest.files:
        if not is_plain_name(name) or name == NAME:
            raise CheckpointError(f"{path}: names the file {name!r}; expected names without folders")
    return manifest


def find_problems(folder: Path, step: int) -> list[str]:
    """What is wrong with the files of a checkpoint of ``step``, one line each; it reads every byte."""
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return [str(error)]
    if manifest.step != step:
        return [f"{folder / NAME}: is of step {manifest.step}; expected {step}, as its folder's name says"]
    if not manifest.files:
        return [f"{folder / NAME}: names no files"]
    return [
        problem
        for name, entry in manifest.files.items()
        if (problem := _file_problem(folder / name, entry)) is not None
    ]


def _file_problem(path: Path, entry: FileEntry) -> str | None:
    if path.is_symlink():
        return f"{path}: is a symbolic link, which may lead anywhere"
    if not path.exists():
        return f"{path}: is missing"
    if not path.is_file():
        return f"{path}: is no file"
    try:
        size = path.stat().st_size
        if size != entry.size:
            return f"{path}: has {size} bytes; expected {entry.size}"
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"{path}: cannot be read: {reason(error)}"
    return None if digest == entry.sha256 else f"{path}: its SHA-256 differs from the one when it was written"
