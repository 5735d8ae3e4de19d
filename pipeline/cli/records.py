"""What run.json says at the start and at the end of an attempt."""

from __future__ import annotations

import hashlib
import platform
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version

from pipeline.cli.loading import Loaded
from pipeline.config.config import Config, fingerprint, identity
from pipeline.config.hiding import masked_words
from pipeline.engine.failure import Failure
from pipeline.errors import CheckpointError
from pipeline.registry.provenance import Provenance
from pipeline.runs.layout import RunFolder
from pipeline.runs.process import this_process
from pipeline.runs.record import Attempt, Best, Change, Git, Parent, Record, Status, read, write
from pipeline.runs.record import Failure as RecordedFailure
from pipeline.runs.store import CheckpointStore


@dataclass(frozen=True)
class Placement:
    """What an attempt runs on, as far as it makes no difference to the experiment."""

    world_size: int
    threads: int
    """Of each process."""
    device: str
    """Rank 0's."""


def new_record(
    loaded: Loaded,
    *,
    command: Sequence[str],
    seed: int,
    seed_drawn: bool,
    placement: Placement,
    parent: Parent | None,
    git: Git | None,
) -> Record:
    """The record of a run that begins now."""
    config = loaded.config
    now = datetime.now(UTC).astimezone()
    provenance = provenance_of_run(loaded)
    process = this_process()
    return Record(
        name=config.plan.name,
        created=now,
        fingerprint=fingerprint(config, seed),
        identity=_identity(config, seed_drawn, parent),
        seed=seed,
        seed_drawn=seed_drawn,
        **asdict(placement),
        host=socket.gethostname(),
        pid=process.pid,
        process_started=process.started,
        process_table=process.table,
        command=tuple(masked_words(command, config.secrets, config.hidden)),
        overrides=tuple(config.overrides),
        git=git,
        versions=versions_of(provenance),
        components=tuple({**asdict(row), "kind": str(row.kind)} for row in provenance),
        parent=parent,
        attempts=(Attempt(now, socket.gethostname(), process.pid, 1, world_size=placement.world_size),),
    )


def next_attempt(
    record: Record,
    loaded: Loaded,
    *,
    command: Sequence[str],
    first_step: int,
    last_sign: datetime,
    placement: Placement,
    changes: tuple[Change, ...],
) -> Record:
    """The record of a run that is resumed now; an attempt that ended without a word is marked so."""
    config = loaded.config
    now = datetime.now(UTC).astimezone()
    process = this_process()
    former = tuple(
        replace(attempt, status="interrupted", ended=last_sign) if attempt.status == "running" else attempt
        for attempt in record.attempts
    )
    attempt = Attempt(
        now, socket.gethostname(), process.pid, first_step, world_size=placement.world_size, changes=changes
    )
    provenance = provenance_of_run(loaded)
    return replace(
        record,
        fingerprint=fingerprint(config, record.seed),
        identity=_identity(config, record.seed_drawn, record.parent),
        **asdict(placement),
        host=socket.gethostname(),
        pid=process.pid,
        process_started=process.started,
        process_table=process.table,
        status="running",
        reason="",
        ended=None,
        failure=None,
        command=tuple(masked_words(command, config.secrets, config.hidden)),
        overrides=tuple(config.overrides),
        versions=versions_of(provenance),
        components=tuple({**asdict(row), "kind": str(row.kind)} for row in provenance),
        attempts=(*former, attempt),
    )


def finish(
    folder: RunFolder,
    status: Status,
    *,
    reason: str = "",
    steps: int | None = None,
    metrics: dict[str, float] | None = None,
    failure: Failure | None = None,
) -> Record:
    """Write how the attempt in progress ended; what is not given stays."""
    record = read(folder)
    now = datetime.now(UTC).astimezone()
    recorded = _recorded(failure) if failure else None
    done = record.steps if steps is None else steps
    last = replace(
        record.attempts[-1], status=status, reason=reason, ended=now, last_step=done, failure=recorded
    )
    record = replace(
        record,
        status=status,
        reason=reason,
        ended=now,
        steps=done,
        metrics=record.metrics if metrics is None else metrics,
        best=_best(folder),
        failure=recorded,
        attempts=(*record.attempts[:-1], last),
    )
    write(folder, record)
    return record


def _identity(config: Config, seed_drawn: bool, parent: Parent | None) -> str:
    """The config's identity; weights of another run make it another experiment."""
    own = identity(config, drawn_seed=seed_drawn)
    if parent is None or parent.checkpoint is None:
        return own
    return hashlib.sha256(f"{own} {parent.run}@{parent.checkpoint}".encode()).hexdigest()


def _recorded(failure: Failure) -> RecordedFailure:
    return RecordedFailure(
        rank=failure.rank,
        host=failure.host,
        step=failure.step,
        type=failure.type,
        message=failure.message,
        traceback=failure.traceback,
        component=failure.component or None,
        place=failure.place or None,
    )


def _best(folder: RunFolder) -> Best | None:
    """The score of the checkpoint that ``best`` names; none where it is damaged."""
    store = CheckpointStore(folder.checkpoints)
    try:
        step = store.pointer("best")
        score = store.manifest(store.at(step).name).score if step is not None else None
    except CheckpointError:
        return None
    if step is None:
        return None
    return Best(score.metric, score.value, step) if score else None


def provenance_of_run(loaded: Loaded) -> list[Provenance]:
    """Where every component of the config came from, nested ones too."""
    return [row for part in loaded.config.plan.parts() for row in loaded.registry.provenance(part)]


def versions_of(provenance: Sequence[Provenance]) -> dict[str, str]:
    """Of Python, torch, and every distribution that gave a component."""
    distributions = {row.distribution: row.version or "" for row in provenance if row.distribution}
    return {"python": platform.python_version(), "torch": version("torch"), **distributions}
