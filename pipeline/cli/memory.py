"""What a launcher's store keeps from one attempt to the next: its run, and whether a signal stopped it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import count
from typing import TYPE_CHECKING

from pipeline.errors import RunError
from pipeline.runs.layout import RunFolder
from pipeline.runs.process import process_table

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_RUN = "run"
_STOPPED = "stopped by a signal"
_met = count()
"""Numbers the runs that this process takes part in."""


@dataclass(frozen=True)
class Agent:
    """The launcher's process on one host, and how often it has restarted its ranks after a failure."""

    table: str
    """What its number counts in (``runs.process``)."""
    pid: int
    restarts: int

    @classmethod
    def of_this_process(cls) -> Agent:
        return cls(process_table(), os.getppid(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))


class Memory:
    """The launcher's memory of its run.

    A program may call ``pipeline.run`` several times, each for a run of its own. A restarted group calls
    it as often, in processes of its own, and finds each run by its number.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._run = f"{_RUN}/{next(_met)}"

    def begun(self, folder: RunFolder, host: str) -> None:
        """This launcher's run is in ``folder`` now."""
        self._store.set(self._run, json.dumps([folder.name, f"{host}:{folder.path.absolute()}"]))

    def run(self) -> tuple[str, str] | None:
        """The folder's name and its place, of the run that a former attempt worked on."""
        if not self._store.check([self._run]):
            return None
        name, place = json.loads(self._store.get(self._run))
        return name, place

    def stopped(self, agent: Agent) -> None:
        """A signal has stopped the run, and ``agent`` is about to see its ranks leave."""
        self._store.set(_STOPPED, json.dumps(asdict(agent)))

    def is_stopped(self, agents: Iterable[Agent]) -> bool:
        """Whether this attempt is the restart of a run that a signal stopped.

        A launcher that restarts its ranks because a host has joined ends them by a signal too, but it
        counts that as no restart: then the run goes on.
        """
        if not self._store.check([_STOPPED]):
            return False
        former = Agent(**json.loads(self._store.get(_STOPPED)))
        return any(
            (agent.table, agent.pid) == (former.table, former.pid) and agent.restarts > former.restarts
            for agent in agents
        )


def lost(run: str, place: str) -> RunError:
    """No host that is here has the run that this launcher began."""
    return RunError(
        f"{run} is not within reach: it was in {place}, and no host of this attempt has it; bring that host "
        "back, or start a new launcher to start over"
    )
