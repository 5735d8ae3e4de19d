"""What a listing needs to know of a run: the part of its record that the index keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pipeline.runs.layout import RunFolder
from pipeline.runs.liveness import is_running, last_sign
from pipeline.runs.process import Process

if TYPE_CHECKING:
    from pipeline.runs.record import Record


class Summary(NamedTuple):
    """A cut of run.json, all of it plain values, so that it can be written as JSON and read back.

    A tuple, since thousands are made at once.
    """

    name: str
    created: str
    """ISO 8601, with a zone."""
    status: str
    """As recorded; a run that says running may be gone."""
    reason: str
    steps: int
    metrics: Mapping[str, float]
    best_metric: str | None
    best_value: float | None
    best_step: int | None
    parent_run: str | None
    parent_checkpoint: str | None
    fingerprint: str
    identity: str
    seed: int
    seed_drawn: bool
    world_size: int
    host: str
    pid: int
    process_started: int | None
    process_table: str | None
    spent: float
    """Seconds of the attempts that have ended."""
    open_since: float | None
    """When the attempt in progress began, in seconds since 1970; None: there is none."""

    @classmethod
    def of(cls, record: Record) -> Summary:
        """What a record says, cut down."""
        ended = [attempt for attempt in record.attempts if attempt.ended is not None]
        last = record.attempts[-1] if record.attempts else None
        best, parent = record.best, record.parent
        return cls(
            name=record.name,
            created=record.created.isoformat(),
            status=record.status,
            reason=record.reason,
            steps=record.steps,
            metrics=record.metrics,
            best_metric=best.metric if best else None,
            best_value=best.value if best else None,
            best_step=best.step if best else None,
            parent_run=parent.run if parent else None,
            parent_checkpoint=parent.checkpoint if parent else None,
            fingerprint=record.fingerprint,
            identity=record.identity,
            seed=record.seed,
            seed_drawn=record.seed_drawn,
            world_size=record.world_size,
            host=record.host,
            pid=record.pid,
            process_started=record.process_started,
            process_table=record.process_table,
            spent=sum(max(0.0, (one.ended - one.started).total_seconds()) for one in ended if one.ended),
            open_since=last.started.timestamp() if last and last.ended is None else None,
        )

    @property
    def began(self) -> datetime:
        return datetime.fromisoformat(self.created)

    def status_now(self, folder: RunFolder) -> str:
        """The recorded status, or ``interrupted`` where it says running and the process is gone."""
        if self.status != "running":
            return self.status
        process = Process(self.host, self.process_table, self.pid, self.process_started)
        return "running" if is_running(folder, process) else "interrupted"

    def seconds(self, folder: RunFolder, status: str) -> float:
        """Time spent in all attempts; one in progress counts to now, an interrupted one to its last sign."""
        if self.open_since is None:
            return self.spent
        end = time.time() if status == "running" else last_sign(folder)
        return self.spent + max(0.0, end - self.open_since)
