"""The names and places of everything in a run folder."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

CONFIG = "config.toml"
RECORD = "run.json"
"""For paths as text, which thousands of runs are read by; else a RunFolder tells the place."""

_STAMP = "%Y%m%d-%H%M%S"
_FOLDER = re.compile(r"(.+)-([0-9]{8}-[0-9]{6})-([0-9a-f]{6})(?:-([1-9][0-9]*))?", re.DOTALL)
_END = re.compile(r"-[0-9]{8}-[0-9]{6}-[0-9a-f]{6}(?:-([1-9][0-9]*))?\Z")
_UNSAFE = re.compile(r"[^\w.+=@-]+")
_MAX_NAME_BYTES = 120  # a file name may have 255; the rest is for stamp, suffix and temporary marks


@dataclass(frozen=True)
class RunFolder:
    """A run folder's files, by meaning; whether they exist is another question."""

    path: Path

    @property
    def name(self) -> str:
        """The folder's own name, by which commands refer to the run."""
        return self.path.name

    @property
    def config(self) -> Path:
        """Everything resolved: the file that is compared and can be run again."""
        return self.path / CONFIG

    def former_config(self, attempt: int) -> Path:
        """What config.toml was during ``attempt`` (from 1), where a later attempt changed it."""
        return self.path / f"config.attempt-{attempt}.toml"

    @property
    def source(self) -> Path:
        """The folder of the files as the user wrote them."""
        return self.path / "source"

    @property
    def patch(self) -> Path:
        """What turns the recorded commit into the code that ran; not there where nothing was changed."""
        return self.path / "code.patch"

    @property
    def record(self) -> Path:
        return self.path / RECORD

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def superseded(self) -> Path:
        """Rows of metrics.jsonl that a resumed run measured again."""
        return self.path / "metrics.superseded.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, rank: int) -> Path:
        """The log file of one rank."""
        return self.logs / f"rank-{rank}.log"


@dataclass(frozen=True)
class FolderName:
    """A run folder's name, taken apart."""

    name: str
    """The run's name, made safe."""
    created: datetime
    """Local time of the machine that made it, without a zone, to the second."""
    fingerprint: str
    """The first 6 digits of the config's."""
    copy: int = 1
    """2 for the second run of the same second, and so on."""

    def __str__(self) -> str:
        text = f"{self.name}-{self.created.strftime(_STAMP)}-{self.fingerprint}"
        return text if self.copy == 1 else f"{text}-{self.copy}"


def folder_name(name: str, created: datetime, fingerprint: str, copy: int = 1) -> FolderName:
    """The folder's name for a run called ``name``, any text, that begins at ``created``."""
    return FolderName(safe_name(name), created.replace(microsecond=0, tzinfo=None), fingerprint[:6], copy)


def parse_folder_name(text: str) -> FolderName | None:
    """Take a folder's name apart; None if no run is called so."""
    match = _FOLDER.fullmatch(text)
    if match is None:
        return None
    try:
        created = datetime.strptime(match[2], _STAMP)
    except ValueError:
        return None
    return FolderName(match[1], created, match[3], int(match[4] or 1))


def copy_number(text: str) -> int:
    """Which run of its second a folder's name says it is, from 1; 0 if no run is called so."""
    match = _END.search(text)
    return int(match[1] or 1) if match and match.start() > 0 else 0


def safe_name(name: str) -> str:
    """Any text as a part of a file name: letters of all scripts stay, what a path or shell reads goes."""
    text = _UNSAFE.sub("-", unicodedata.normalize("NFC", name))
    text = text.strip("-.")  # no hidden folders, no ".." and nothing that looks like an option
    text = text.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").strip("-.")
    return text or "run"
