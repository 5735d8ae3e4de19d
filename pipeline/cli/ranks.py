"""All ranks at work together: joined before, left after, and whoever fails first is named."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from pipeline.api.duration import format_duration
from pipeline.api.settings import DistributedSettings
from pipeline.cli.output import FAILED, say, tell_launcher
from pipeline.config.masking import mask
from pipeline.engine.error_text import text_of
from pipeline.engine.experiment import Part
from pipeline.engine.failure import Failure, is_aftermath
from pipeline.engine.farewell import Farewell
from pipeline.engine.group import Alone, Group, ProcessGroup, another_connection, await_ranks, serve_store
from pipeline.engine.position import Position
from pipeline.engine.pulse import LOST, Pulse, Sign
from pipeline.engine.signals import EarlyStop, Phase, Signals
from pipeline.engine.stop import StopAgreement, StopAlone
from pipeline.engine.watch import Watch
from pipeline.engine.world import World
from pipeline.errors import RunError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]


class RunFailedError(RunError):
    """The work has failed after it began; the cause is the error itself."""

    def __init__(self, failure: Failure, *, first: bool) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.first = first
        """Whether this rank was the first to fail: the one whose report people should see."""


@dataclass(frozen=True)
class Ranks:
    """How this rank deals with the others."""

    group: Group
    stop: StopAgreement
    watch: Watch | None = None
    timeout: timedelta = timedelta()
    """Of a collective."""
    whereabouts: Callable[[], str] = str
    """Says where each rank was last heard of, the one that is waited for first."""


@contextmanager
def joined(
    settings: DistributedSettings,
    world: World,
    store: Store | None,
    signals: Signals,
    record: Callable[[Failure], None],
    before_end: Callable[[], None] = lambda: None,
    *,
    position: Position,
    parts: Iterable[Part],
    log: Callable[[str], None],
) -> Iterator[Ranks]:
    """The process group and the side channel, while the work goes on; left together if all went well.

    Args:
        store: the launcher's; None where there is one process.
        record: called on rank 0 with another rank's failure, before this process is ended.
        before_end: called after that, when the failed rank waits no more for its record.
        position: where this rank is, for the others to know.
        log: writes to this rank's log, and on rank 0 for people.
    """
    if store is None:
        yield Ranks(Alone(), StopAlone(signals))
        return
    side = serve_store(store, world, settings.timeout)
    listening, speaking = (another_connection(side, settings.timeout) for _ in range(2))
    parts = tuple(parts)

    def lost(sign: Sign, how: str) -> None:
        watch.report_lost(Failure.of_lost(sign, how, position, parts))

    def main_is_lost() -> None:
        sign = pulse.last_sign_of(0)
        if sign is not None:
            watch.end_without_main(Failure.of_lost(sign, LOST, position, parts))
        os._exit(FAILED)

    telling = another_connection(store, settings.timeout)
    farewell = Farewell(telling)
    watch = Watch(
        listening, speaking, world, signals, record, before_end, _show, main_is_lost, farewell, side
    )
    keys = {part.key for part in parts}
    pulse = Pulse(telling, world, position, keys, settings.timeout, log, lost)
    watch.start()  # not before both are there, since each speaks of the other
    pulse.start()
    try:
        # Nobody is waited for in the group's own rendezvous, where a signal would not be heard.
        await_ranks(store, "joining the group", world.rank, world.world_size, settings.prepare_timeout)
        group = ProcessGroup(world, settings, store)
        yield Ranks(group, watch.stop, watch, settings.timeout, pulse.whereabouts)
    except EarlyStop:
        signals.phase = Phase.ENDING  # a second signal must not cut this short
        watch.leave_early()
        raise
    watch.close(group.barrier)
    pulse.close()
    group.close()


def _show(failure: Failure) -> None:
    say(f"error: {failure}")


@contextmanager
def blamed(
    parts: Iterable[Part],
    world: World,
    position: Position,
    ranks: Ranks | None,
    signals: Signals,
    hidden: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[None]:
    """Turn whatever is raised into a report of who failed, and tell the other ranks.

    Args:
        ranks: None as long as they have not joined.
        hidden: the config's texts that must not be shown (``Config.hidden``).

    Raises:
        RunFailedError: in place of what was raised.
    """
    try:
        with signals.undisguised():
            yield
    except (EarlyStop, RunFailedError):
        raise
    except BaseException as error:
        signals.phase = Phase.ENDING  # the launcher may end this rank now, which is to speak first
        watch, told = ranks.watch if ranks else None, error
        if ranks is not None and watch is not None and is_aftermath(error):
            watch.await_cause()
            if position.phase not in {part.key for part in parts}:
                told = _located(error, ranks)
        failure = _masked(Failure.of(told, world, position, parts), hidden)
        first = watch.report(failure) if watch else True
        raise RunFailedError(failure, first=first) from error


def _located(error: BaseException, ranks: Ranks) -> RunError:
    """What a failed collective cannot say: where all ranks are."""
    text = text_of(error).partition("\n")[0]
    what = f"the connection to another rank has broken ({text})"
    if "imed out" in text:
        limit = f'distributed.timeout = "{format_duration(ranks.timeout)}"'
        what = f"another rank has kept this one waiting for longer than {limit}, which can be raised"
    located = RunError(f"{what}: {ranks.whereabouts()}")
    located.__cause__ = error
    return located


def _masked(failure: Failure, hidden: Mapping[str, str]) -> Failure:
    return replace(failure, message=mask(failure.message, hidden), traceback=mask(failure.traceback, hidden))


def fail(failed: RunFailedError) -> NoReturn:
    """Report the first failure, once and last, and end this process whatever state it is in."""
    if failed.first:
        failure = failed.failure
        tell_launcher(f"{failure.type}: {failure.message}", failure.traceback)
        say(f"error: {failed}")
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    # No orderly exit: a group in mid-collective can neither be left nor destroyed without waiting.
    os._exit(FAILED)
