"""A side channel between the ranks, beside the collectives: who failed, and who wants to stop.

A rank that waits in a collective cannot be told anything through it. So each rank has a thread that
waits on the store: when a rank fails, the others learn its name at once instead of a broken
connection, rank 0 records it, and all end.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.engine.failure import Failure
from pipeline.engine.farewell import Farewell
from pipeline.engine.signals import STOPPED, Phase, Signals
from pipeline.engine.stop import StopTogether
from pipeline.engine.world import World

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_FOREVER = timedelta(days=365)
_ANSWER_TIMEOUT = timedelta(seconds=20)
_CAUSE_TIMEOUT = 4.0  # seconds; some signs of life, by which a lost rank is found
_HEED_TIMEOUT = 8.0  # seconds for the main thread to come out of code in C
_LEAVE_TIMEOUT = timedelta(seconds=3)
_LOOK = 0.05  # seconds
_RECORD_TIMEOUT = timedelta(seconds=5)
_REPORT_TIMEOUT = 10.0  # seconds; the first rank to fail may be killed before its word is out


class Watch:
    """This rank's end of the side channel.

    Args:
        store: a connection of its own (``Store.clone``), since a waiting one blocks every other use.
        speak: another connection, for what this rank has to say.
        record: called on rank 0 with another rank's failure, before this process is ended.
        before_end: called after that, for what must not be cut off.
        show: reports a failure to people, for a rank that cannot.
        main_is_lost: called in a thread when the connection to rank 0 breaks.
        farewell: rank 0's.
        served: what rank 0 serves the store with, which lives as long as this object.
    """

    def __init__(
        self,
        store: Store,
        speak: Store,
        world: World,
        signals: Signals,
        record: Callable[[Failure], None],
        before_end: Callable[[], None],
        show: Callable[[Failure], None],
        main_is_lost: Callable[[], None],
        farewell: Farewell,
        served: Store,
    ) -> None:
        self._served = served
        self._store = store
        self._speak = speak
        self._world = world
        self._signals = signals
        self._record = record
        self._before_end = before_end
        self._show = show
        self._closing = False
        self._early = False
        """A signal before the first step ends all ranks, which is no failure."""
        self._speaking = False
        """This rank's own failure is the first: it ends when that is told, and by nothing else."""
        self._telling = threading.Lock()
        self.stop = StopTogether(signals, lambda: self._publish({"event": "stop"}))
        self._main_is_lost = main_is_lost
        self._farewell = farewell
        self._thread = threading.Thread(target=self._listen, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to listen: from now on what was handed in may be called."""
        self._thread.start()

    def report(self, failure: Failure) -> bool:
        """Tell the others of this rank's failure, and let rank 0 record it.

        Returns:
            True: this is the first failure of the run, the one to be shown. Where it is not, the
            process is ended in here, for the sake of the first one's record.
        """
        try:
            if not self._is_first(failure):
                # This process ends there, when rank 0 has recorded the first failure.
                self._thread.join(_REPORT_TIMEOUT)
                return False
            self._speaking = True  # rank 0 may be gone, and the store with it, before this rank has spoken
            self._publish({"event": "failure"})
            if not self._world.is_main:
                self._speak.wait(["recorded"], _RECORD_TIMEOUT)
        except RuntimeError:  # rank 0 may be gone itself; the report on standard error still comes
            print("rank 0 did not record this failure", file=sys.stderr)  # noqa: T201
        self._leave()
        return True

    def await_cause(self) -> None:
        """After a broken connection give the other end's own word time to come; it ends this process."""
        self._thread.join(_CAUSE_TIMEOUT)

    def report_lost(self, failure: Failure) -> None:
        """Tell of a rank that cannot speak any more; called in a thread, and ends every process."""
        if failure.rank == 0:
            self.end_without_main(failure)
            return
        with self._telling:
            if self._early or self._speaking:
                return
            if self._is_first(failure):
                self._show(failure)
                self._publish({"event": "failure"})
        self._thread.join()

    def end_without_main(self, failure: Failure) -> None:
        """End this process, since rank 0 and its store are gone.

        Rank 1 says so, and records it, unless rank 0 has left in good order and this rank was too busy
        to hear why.
        """
        with self._telling:
            if self._closing or self._early or self._speaking:
                return
            if self._world.rank == 1 and not self._farewell.was_said():
                self._show(failure)
                self._record(failure)
            self._end()

    def leave_early(self) -> None:
        """Let the others leave too, and take this end for no loss: a signal came before the first step."""
        self._early = True
        try:
            self._publish({"event": "early stop"})
        except RuntimeError:  # rank 0 has left, and the store with it
            return
        self._leave()

    def close(self, barrier: Callable[[], None]) -> None:
        """End the threads of all ranks together, in good order."""
        barrier()  # nobody has anything left to say
        self._closing = True
        if self._world.is_main:
            self._publish({"event": "end"})
        self._thread.join()
        barrier()  # rank 0 serves the store, and leaves last of all

    def _is_first(self, failure: Failure) -> bool:
        # Of a lost rank several ranks tell the same: each with its own name to it.
        mine = json.dumps({"told by": self._world.rank, **failure.as_dict()})
        return bool(self._speak.compare_set("failure", "", mine).decode() == mine)

    def _publish(self, event: dict[str, str]) -> None:
        number = self._speak.add("events", 1) - 1
        self._speak.set(f"event/{number}", json.dumps(event))

    def _listen(self) -> None:
        try:
            self._follow_events()
        except RuntimeError:
            if not (self._early or self._speaking):
                self._main_is_lost()

    def _follow_events(self) -> None:
        number = 0
        while True:
            self._store.wait([f"event/{number}"], _FOREVER)
            event = json.loads(self._store.get(f"event/{number}"))["event"]
            number += 1
            if event == "end":
                return
            if event == "early stop":
                self._end_early()
                return
            if event == "stop":
                self._agree_on_stop()
            elif event == "failure":
                self._end_after_failure()

    def _agree_on_stop(self) -> None:
        begun = self.stop.announce()
        self._store.set(f"begun/{self._world.rank}", str(begun))
        keys = [f"begun/{rank}" for rank in range(self._world.world_size)]
        try:
            self._store.wait(keys, _ANSWER_TIMEOUT)
        except (
            RuntimeError
        ):  # a thread answers at once unless its process is gone, or code in C holds on to it
            self.stop.give_up([rank for rank, key in enumerate(keys) if not self._store.check([key])])
            return
        self.stop.decide(max(int(self._store.get(key)) for key in keys))

    def _end_after_failure(self) -> None:
        """End this process at once, unless the failure is its own: it may be deep in a collective."""
        told = json.loads(self._store.get("failure"))
        failure = Failure.from_dict(told)
        if failure.rank == self._world.rank:
            return
        if self._world.is_main:
            self._record(failure)
            self._store.set("recorded", "yes")
            self._before_end()
        speaks = told["told by"] == failure.rank
        self._leave(lost=None if speaks else failure.rank)
        self._end()

    def _end_early(self) -> None:
        """End this rank by a signal of its own, unless it is the one that has had one.

        Code in C hears no signal: it may be joining the group with a rank that has just left.
        """
        had_one, self._early = self._early, True
        self._leave()
        if had_one:
            return
        self._signals.ask()
        deadline = time.monotonic() + _HEED_TIMEOUT
        while self._signals.phase is Phase.STARTING:
            if time.monotonic() > deadline:
                self._end(STOPPED)
            time.sleep(_LOOK)

    def _leave(self, lost: int | None = None) -> None:
        """Let the others hear of it before rank 0 takes the store with it; all but one that is gone."""
        others = [f"left/{rank}" for rank in range(self._world.world_size) if rank != lost]
        try:
            self._speak.set(f"left/{self._world.rank}", "yes")
            if self._world.is_main:
                self._farewell.say()
                self._speak.wait(others, _LEAVE_TIMEOUT)
        except RuntimeError:  # some rank is gone, or hangs
            return

    def _end(self, status: int = 1) -> None:
        for child in multiprocessing.active_children():  # a loader's workers would outlive os._exit
            child.kill()
        sys.stderr.flush()
        os._exit(status)
