"""Records and stores for the tests of the run folder."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.runs.process import this_process
from pipeline.runs.record import Record

CREATED = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
FINGERPRINT = "0123456789abcdef"


@pytest.fixture
def make_record() -> Callable[..., Record]:
    """A record of a run of this very process, with any field replaced."""

    def make(**fields: Any) -> Record:
        me = this_process()
        values: dict[str, Any] = {
            "name": "digits",
            "created": CREATED,
            "fingerprint": FINGERPRINT,
            "identity": "same",
            "seed": 7,
            "seed_drawn": False,
            "world_size": 2,
            "threads": 1,
            "host": me.host,
            "pid": me.pid,
            "process_started": me.started,
            "process_table": me.table,
        }
        return Record(**(values | fields))

    return make
