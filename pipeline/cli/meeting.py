"""The ranks of an attempt meet: who is there, who has the newest checkpoint, who leads."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.api.settings import DistributedSettings
from pipeline.cli.choice import RefusedError, await_choice
from pipeline.cli.loading import Loaded
from pipeline.cli.memory import Agent, Memory, lost
from pipeline.cli.output import CONFIG_ERROR
from pipeline.cli.search import Found, leader, look
from pipeline.cli.wish import Wish
from pipeline.engine.group import AttemptStore, launcher_store
from pipeline.engine.roll_call import RollCall, call_roll
from pipeline.engine.signals import EarlyStop
from pipeline.engine.world import World
from pipeline.errors import ConfigError, Problem, RunError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

Say = Callable[[str], None]

_PATIENCE = timedelta(seconds=10)  # in which rank 0, if it is in good order, will have started


@dataclass(frozen=True)
class Excuse:
    """Why a rank cannot take part."""

    host: str
    message: str
    status: int
    """The exit status that its error calls for."""


@dataclass(frozen=True)
class Meeting:
    """What all ranks of an attempt know of each other before it begins."""

    world: World
    """With the leader as rank 0."""
    wish: Wish
    store: Store | None = None
    """This attempt's part of the launcher's store; None where there is one rank."""
    memory: Memory | None = None
    """None without a launcher."""
    known_steps: int = 0
    """Optimizer steps that some host's record of the run knows of."""
    excuses: Mapping[int, Excuse] = field(default_factory=dict)
    """Of the ranks that cannot take part."""

    def require_all(self) -> None:
        """Raises: ConfigError, RunError: naming a rank that cannot take part, with its own words."""
        for rank, excuse in self.excuses.items():
            place = f"rank {rank} on {excuse.host}"
            if excuse.status == CONFIG_ERROR:
                raise ConfigError([Problem(place, "", excuse.message)])
            raise RunError(f"{place}: {excuse.message}")


def meet(loaded: Loaded, wish: Wish, world: World, say: Say) -> Meeting:
    """Find together; every rank calls it.

    Without a shared file system each host has its own runs folder. The lowest rank whose host has the
    newest sound checkpoint becomes rank 0 of this attempt: it decides, reads and writes, so the run's
    folder stays where its newest state is.

    Raises:
        EarlyStop: this attempt is the restart of a run that a signal stopped.
        RunError: if ranks are missing, or this launcher's run is on no host that is here.
    """
    settings = loaded.config.plan.distributed
    launcher = _launcher_store(world, settings)
    if launcher is None:
        return Meeting(world, wish)
    memory = Memory(launcher)
    former = memory.run()
    if former is not None:  # a restarted group goes on with its own run, whatever the command line says
        wish = replace(wish, resume=True, resume_run=former[0], restart=True, parent=None)
    found = look(loaded, wish, world.host) if world.is_local_main else None
    word = json.dumps([asdict(Agent.of_this_process()), asdict(found) if found else None])
    roll = _roll(launcher, world, word, settings)
    words = [json.loads(text) for text in roll.told]
    excuses = {rank: Excuse(**said) for rank, said in enumerate(words) if isinstance(said, dict)}
    if excuses:
        return Meeting(world, wish, AttemptStore(roll.attempt, launcher), excuses=excuses)
    if memory.is_stopped(Agent(**agent) for agent, _ in words):
        if world.is_main:
            say("this launcher's run was stopped by a signal, so a restarted group does not begin again")
        raise EarlyStop(signal.SIGTERM)
    everywhere = [Found(**one) if one else None for _, one in words]
    if former is not None and not any(everywhere):
        raise lost(*former)
    world = _led(world, everywhere, say)
    store = AttemptStore(roll.attempt, launcher) if world.world_size > 1 else None
    own = everywhere[leader(everywhere)]
    known = max((one.steps for one in everywhere if one and own and one.run == own.run), default=0)
    return Meeting(world, wish, store, memory, known)


def excuse(message: str, status: int, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell the others that this rank, which is not rank 0, cannot take part, instead of ``meet``.

    Returns:
        Whether rank 0 has heard it, and says so. It may have left for the same reason.
    """
    rank, world_size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    word = json.dumps(asdict(Excuse(socket.gethostname(), message, status)))
    try:
        launcher = launcher_store(_PATIENCE)
        roll = call_roll(launcher, rank, world_size, word, _PATIENCE)
        await_choice(AttemptStore(roll.attempt, launcher), rank, {})
    except RefusedError:
        return True
    except (RunError, RuntimeError, ValueError):  # nobody is there, or no launcher
        return False
    return False


def _launcher_store(world: World, settings: DistributedSettings) -> Store | None:
    """The launcher's store, where there is one: a rank that is alone opens no port of its own."""
    if world.world_size > 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return launcher_store(settings.timeout)
    return None


def _roll(launcher: Store, world: World, word: str, settings: DistributedSettings) -> RollCall:
    return call_roll(launcher, world.rank, world.world_size, word, settings.prepare_timeout)


def _led(world: World, everywhere: Sequence[Found | None], say: Say) -> World:
    """This rank's place when the holder of the newest checkpoint and rank 0 have changed places."""
    first = leader(everywhere)
    found = everywhere[first]
    if first == 0 or found is None:
        return world
    if world.rank == 0:
        newest = (
            f"its newest checkpoint is of step {found.checkpoint}" if found.checkpoint else "no checkpoint"
        )
        say(
            f"{found.run} is on {found.host}, in {found.path}: {newest}. "
            f"Rank {first} there leads this attempt as rank 0, and rank 0 is rank {first}"
        )
    world = replace(world, rank={0: first, first: 0}.get(world.rank, world.rank))
    os.environ["RANK"] = str(world.rank)  # components and libraries that ask it must get the same answer
    return world
