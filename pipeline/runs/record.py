"""run.json: what is known about a run, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError

from pipeline.errors import RunError
from pipeline.runs.files import read_whole, reason, remedy, write_atomic
from pipeline.runs.layout import RECORD, RunFolder
from pipeline.runs.process import Process

Status = Literal["running", "completed", "stopped", "failed", "interrupted"]
"""``interrupted`` (the process is gone without a word) is derived by readers, and written into an
attempt when the next one starts; it is never a run's own recorded status."""

FORMAT = 1

_CONFIG = ConfigDict(ser_json_inf_nan="strings", extra="ignore")

# A time without a zone is local time: arithmetic between the two kinds would fail.
Time = Annotated[datetime, AfterValidator(lambda time: time if time.tzinfo else time.astimezone())]


@dataclass(frozen=True)
class Git:
    """The state of the user's repository at the start."""

    commit: str
    dirty: bool | None
    """Whether tracked files differ from the commit; None: it took too long to tell."""


@dataclass(frozen=True)
class Parent:
    """The run that this one was started from."""

    run: str
    """The folder's name."""
    checkpoint: str | None = None
    """Whose weights it started with; None: from the config alone."""


@dataclass(frozen=True)
class Best:
    """The best value of the monitored metric."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    metric: str
    value: float
    step: int


@dataclass(frozen=True)
class Failure:
    """The first thing that went wrong, and where."""

    rank: int
    host: str
    step: int | None
    """None: before the first step."""
    type: str
    """The exception's class name."""
    message: str
    traceback: str
    component: str | None = None
    """Its key in the config, as ``dataset.train``; None: none is to blame."""
    place: str | None = None
    """Where the config names it, as ``pipeline.toml:12:1``."""


@dataclass(frozen=True)
class Change:
    """One config key that differs from the attempt before."""

    key: str
    before: Any
    after: Any
    effect: str
    """``takes effect`` or ``accepted``."""


@dataclass(frozen=True)
class Attempt:
    """One time that the run was started or resumed."""

    started: Time
    host: str
    pid: int
    first_step: int
    """The first optimizer step that it did or would have done, from 1."""
    status: Status = "running"
    reason: str = ""
    ended: Time | None = None
    last_step: int | None = None
    """The last optimizer step done; None while it runs."""
    world_size: int = 1
    changes: tuple[Change, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class Record:
    """Everything in run.json; values of the attempt in progress, or of the last one."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    name: str
    """As the user gave it; the folder's name holds a safe form."""
    created: Time
    fingerprint: str
    """Hash of the resolved config; hexadecimal."""
    identity: str
    """The fingerprint less a drawn seed and the keys that take effect on resume."""
    seed: int
    seed_drawn: bool
    world_size: int
    threads: int
    host: str
    pid: int
    process_started: int | None
    """Clock ticks after the host's start; tells the process from a later one of the same number."""
    device: str | None = None
    """Rank 0's: ``cpu``, or the accelerator's model."""
    process_table: str | None = None
    """What process numbers count in; tells the host from another, or a container, of the same name."""
    status: Status = "running"
    reason: str = ""
    """Why it ended, in words: a signal, a hook's stop; empty for the length reached."""
    ended: Time | None = None
    steps: int = 0
    """Optimizer steps done."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last value of every metric."""
    best: Best | None = None
    failure: Failure | None = None
    command: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    """As given, secrets masked: ``--set optimizer.lr=0.01``."""
    git: Git | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of python, torch and every distribution that gave a component."""
    components: tuple[Mapping[str, Any], ...] = ()
    """Where each component came from."""
    parent: Parent | None = None
    attempts: tuple[Attempt, ...] = ()
    format: int = FORMAT

    @property
    def process(self) -> Process:
        """Rank 0's of the last attempt."""
        return Process(self.host, self.process_table, self.pid, self.process_started)


_RECORD = TypeAdapter(Record)


def read(folder: RunFolder) -> Record:
    """Read run.json; keys of later versions are ignored.

    Raises:
        RunError: if it is missing, cannot be read, or is no run's record.
    """
    try:
        return _RECORD.validate_json(read_whole(f"{folder.path}/{RECORD}"))
    except FileNotFoundError:
        raise RunError(f"{folder.path} is no run folder: it has no {RECORD}") from None
    except OSError as error:
        raise RunError(f"{folder.record}: cannot be read: {reason(error)}") from error
    except ValidationError as error:
        raise RunError(f"{folder.record}: is no record of a run: {_first_fault(error)}") from None


def write(folder: RunFolder, record: Record) -> None:
    """Write run.json whole or not at all.

    Raises:
        RunError: if it cannot be written; the former one stands.
    """
    try:
        write_atomic(folder.record, to_json(record))
    except OSError as error:
        raise RunError(f"{folder.record}: cannot be written: {reason(error)}; {remedy(error)}") from error


def to_json(record: Record) -> bytes:
    """The bytes of run.json; numbers that are not finite stand as the strings NaN and Infinity."""
    return _RECORD.dump_json(record, indent=2) + b"\n"


def from_json(data: bytes) -> Record:
    """What ``to_json`` has written."""
    return _RECORD.validate_json(data)


def _first_fault(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)
    first = faults[0]
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {first['msg']}{more}" if place else f"{first['msg']}{more}"
