"""The side channel: what its threads call, and from when on."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from datetime import timedelta

import torch

from pipeline.engine.farewell import Farewell
from pipeline.engine.position import Position
from pipeline.engine.pulse import Pulse, Sign
from pipeline.engine.signals import Signals
from pipeline.engine.watch import Watch
from pipeline.engine.world import World
from pipeline.runs.process import process_table

WORLD = World(rank=1, local_rank=1, world_size=2, local_world_size=2, device=torch.device("cpu"), host="here")
SIGN = Sign(0, "here", process_table(), 2**30, None, 0, "phase", 3, 0, 0.0)


def nothing(*arguments):
    pass


class Gone:
    """A store whose server has ended before anybody asked."""

    def wait(self, keys, timeout):
        raise RuntimeError("connection reset")


class Full:
    """A store in which rank 0, whose process is gone, has left a sign."""

    def set(self, key, value):
        pass

    def check(self, keys):
        return True

    def get(self, key):
        return json.dumps(asdict(SIGN))


def test_a_sign_that_was_not_looked_at_is_looked_for():
    """Rank 0 can be killed before this rank has looked for the first time, and is to be named then too."""
    pulse = Pulse(Full(), WORLD, Position(), (), timedelta(minutes=5), nothing, nothing)
    assert pulse.last_sign_of(0) == SIGN


def test_a_rank_that_is_lost_at_once_is_spoken_of_after_the_start_alone():
    """Each thread speaks of the other's object, which has to be there by then."""
    lost = threading.Semaphore(0)
    store = Gone()
    watch = Watch(
        store, store, WORLD, Signals(), nothing, nothing, nothing, lost.release, Farewell(store), store
    )
    pulse = Pulse(
        Full(), WORLD, Position(), (), timedelta(minutes=5), nothing, lambda sign, how: lost.release()
    )
    assert not lost.acquire(timeout=0.2)
    watch.start()
    assert lost.acquire(timeout=30)
    pulse.start()
    assert lost.acquire(timeout=30)
    pulse.close()
