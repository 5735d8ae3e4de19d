"""Signs of life: each rank tells what it does, and sees when another has gone or stands still.

A rank that is killed says nothing, and the others' own errors tell of a broken connection only. So a
thread of each rank tells the launcher's store every second where its main thread is, and looks at the
ranks beside it (in a ring) and at rank 0, whose end it tells in their place. The main thread does no
more for it than to set attributes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.engine.position import Position
from pipeline.engine.world import World
from pipeline.runs.process import is_alive, is_stopped, process_table, this_process

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

INTERVAL = 1.0  # seconds between two signs
STANDSTILL = 10.0
"""Seconds in one place after which a rank says what it waits for; then after twice the time, and so on."""
LOST = "its process has ended without a word, as one that is killed does"
_SHORTEST_SILENCE = 30.0  # seconds without a sign before a rank elsewhere counts as gone: it may be starved


@dataclass(frozen=True)
class Sign:
    """What one rank last told of itself."""

    rank: int
    host: str
    table: str
    """Where its process number counts; see runs.process."""
    pid: int
    started: int | None
    """When the process began; see runs.process."""
    beat: int
    """How many signs it had given before."""
    phase: str
    step: int
    epoch: int
    entered: float
    """When it came into this phase, in seconds since 1970."""

    @property
    def is_here(self) -> bool:
        return self.table == process_table()

    @property
    def has_gone(self) -> bool:
        """Whether the process has ended, as far as can be seen from here."""
        return self.is_here and not is_alive(self.pid, self.started)

    @property
    def is_stopped(self) -> bool:
        return self.is_here and is_stopped(self.pid)

    def __str__(self) -> str:
        seconds = time.time() - self.entered
        return f"rank {self.rank} on {self.host} in {self.phase} after step {self.step} since {seconds:.0f} s"


class Pulse:
    """This rank's signs, and its eye on others'.

    Args:
        store: a connection that nobody else waits on.
        components: the phases in which a component is at work.
        timeout: of a collective; a rank that is silent for half of it counts as gone.
        warn: says a line of a rank that stands still or is silent.
        lost: called with the last sign of a rank that has gone, and with how that is known.
    """

    def __init__(
        self,
        store: Store,
        world: World,
        position: Position,
        components: Collection[str],
        timeout: timedelta,
        warn: Callable[[str], None],
        lost: Callable[[Sign, str], None],
    ) -> None:
        self._store = store
        self._world = world
        self._components = components
        self._position = position
        self._patience = timeout.total_seconds() / 2
        self._warn = warn
        self._lost = lost
        self._process = this_process()
        self._beat = 0
        self._entered = position.entered
        self._next_word = STANDSTILL
        self._heard: dict[int, tuple[Sign, int]] = {}
        """The last sign of each rank looked at, and this rank's own beat when it came."""
        self._warned: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin to give signs and to look: from now on what was handed in may be called."""
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def last_sign_of(self, rank: int) -> Sign | None:
        """The last sign of another rank, looked for now if it was not yet; None: there is none."""
        if rank in self._heard:
            return self._heard[rank][0]
        try:
            return next(iter(self._signs([rank])), None)
        except RuntimeError:  # the launcher's store is gone
            return None

    def whereabouts(self) -> str:
        """The last sign of every rank, in words; the one that is waited for first.

        That one is in a component, and came there before those that wait.
        """
        try:
            signs = self._signs(range(self._world.world_size))
        except RuntimeError:
            return "the launcher is gone, too"
        signs.sort(key=lambda sign: (sign.phase not in self._components, sign.entered))
        return "; ".join(map(str, signs))

    def _live(self) -> None:
        while not self._ended.wait(INTERVAL if self._beat else 0.0):
            try:
                self._tell()
                self._look(self._neighbours())
                self._speak_of_a_standstill()
            except RuntimeError:  # the launcher's store is gone, and so the launcher: the run ends anyway
                return

    def _tell(self) -> None:
        if self._entered != self._position.entered:
            self._entered = self._position.entered
            self._next_word = STANDSTILL
        sign = self._own_sign()
        self._beat += 1
        self._store.set(_key(sign.rank), json.dumps(asdict(sign)))

    def _own_sign(self) -> Sign:
        position, process = self._position, self._process
        return Sign(
            self._world.rank,
            process.host,
            process_table(),
            process.pid,
            process.started,
            self._beat,
            position.phase,
            position.step,
            position.epoch,
            position.entered,
        )

    def _neighbours(self) -> set[int]:
        rank, size = self._world.rank, self._world.world_size
        return {(rank - 1) % size, (rank + 1) % size, 0} - {rank}

    def _signs(self, ranks: Sequence[int]) -> list[Sign]:
        """The last sign of each of these ranks that has given one."""
        known = [rank for rank in ranks if self._store.check([_key(rank)])]
        return [Sign(**json.loads(self._store.get(_key(rank)))) for rank in known]

    def _look(self, ranks: set[int]) -> None:
        for sign in self._signs(sorted(ranks)):
            before = self._heard.get(sign.rank)
            if before is None or before[0].beat != sign.beat:
                self._heard[sign.rank] = sign, self._beat
                self._warned.discard(sign.rank)
            if self._ended.is_set():
                return
            if sign.has_gone:
                self._lost(sign, LOST)
            else:
                # In own beats: who was starved or stopped itself has no reason to call others silent.
                self._weigh_silence(sign, (self._beat - self._heard[sign.rank][1]) * INTERVAL)

    def _weigh_silence(self, sign: Sign, silent: float) -> None:
        """Give up a silent rank, but no process that runs here: its code may let no other thread work."""
        stopped = sign.is_stopped
        limit = self._patience if stopped else max(self._patience, _SHORTEST_SILENCE)
        if silent > limit and (stopped or not sign.is_here):
            state = "is stopped (SIGSTOP)" if stopped else "or its machine or network is gone"
            self._lost(sign, f"it has given no sign of life for {silent:.0f} s, {state}")
        elif silent > min(STANDSTILL, limit / 2) and sign.rank not in self._warned:
            self._warned.add(sign.rank)
            state = " and is stopped (SIGSTOP)" if stopped else ""
            self._warn(f"{sign}: it has given no sign of life for {silent:.0f} s{state}")

    def _speak_of_a_standstill(self) -> None:
        if time.time() - self._entered < self._next_word:
            return
        self._next_word *= 2
        self._warn(f"no step is done: {self.whereabouts()}")


def _key(rank: int) -> str:
    return f"pulse/{rank}"
