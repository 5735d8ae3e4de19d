"""Another connection to a store leads to the same store, whoever serves it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from torch.distributed import TCPStore

from pipeline.engine.group import AttemptStore, another_connection

TIMEOUT = timedelta(seconds=10)


def served() -> TCPStore:
    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)


def test_to_a_store_that_a_rank_serves(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")  # no launcher is there any more
    store = served()
    another_connection(store, TIMEOUT).set("said", "by the other")
    assert store.get("said") == b"by the other"


def test_to_the_store_of_one_attempt():
    launchers = served()
    first, second = (AttemptStore(attempt, launchers) for attempt in ("0", "1"))
    another_connection(another_connection(first, TIMEOUT), TIMEOUT).set("said", "in the first")
    second.set("said", "in the second")
    assert first.get("said") == b"in the first"
    assert not launchers.check(["said"])


def test_another_connection_may_wait_without_blocking_the_first():
    store = served()
    other = another_connection(AttemptStore("1", store), TIMEOUT)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(other.get, "late")
        time.sleep(0.3)  # until it waits
        AttemptStore("1", store).set("late", "said meanwhile")
        assert waiting.result() == b"said meanwhile"
