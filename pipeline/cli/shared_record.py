"""The record of a run that has ended, on every rank: only rank 0's host need have the run's folder."""

from __future__ import annotations

import time

from pipeline.cli.attempt import Ended
from pipeline.runs.record import Record, from_json, read, to_json

_KEY = "the record"
_POLL = 0.02  # seconds


def shared_record(ended: Ended) -> Record:
    """The record as rank 0 has written it; every rank calls it."""
    if ended.store is None:
        return read(ended.folder)
    if ended.leads:
        record = read(ended.folder)
        ended.store.set(_KEY, to_json(record).decode())
        return record
    while not ended.store.check([_KEY]):
        time.sleep(_POLL)
    return from_json(ended.store.get(_KEY))
