"""Where trials are made: a nursery of ranks, in a process of its own, and the folder of what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.cli.verification.conductor import checkpoint_written
from pipeline.cli.verification.evidence import Evidence
from pipeline.cli.verification.nursery import READY
from pipeline.cli.verification.rank import FAILURE, evidence_file
from pipeline.cli.verification.trial import Order
from pipeline.engine.failure import Failure
from pipeline.errors import RunError

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from pipeline.cli.verification.nursery import main; main()"
)
_LAST_LINES = 15


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    order: Order
    statuses: tuple[int, ...]
    failure: Failure | None
    """Who failed; None where none did, or none could say."""

    @property
    def complete(self) -> bool:
        return not any(self.statuses)

    @property
    def killed(self) -> bool:
        """Whether a trial was killed as it was to be, its checkpoint complete.

        Other ranks may have noticed that rank 0 is gone in the moment before they killed themselves.
        """
        written = checkpoint_written(Path(self.order.folder)).exists()
        return written and self.statuses[0] == -signal.SIGKILL and all(self.statuses)

    def evidence(self) -> list[Evidence]:
        """By rank, of a complete trial."""
        folder = Path(self.order.folder)
        return [Evidence.read(evidence_file(folder, rank)) for rank in range(self.order.world_size)]

    def log(self) -> str:
        """The last lines of what the ranks wrote."""
        texts = []
        for rank in range(self.order.world_size):
            file = Path(self.order.folder) / f"rank-{rank}.log"
            lines = file.read_text(errors="replace").splitlines() if file.exists() else []
            texts += [f"rank {rank}: {line}" for line in lines[-_LAST_LINES:]]
        return "\n".join(texts)


@contextmanager
def laboratories() -> Iterator[tuple[Laboratory, Laboratory]]:
    """Two that hash strings with different seeds; ended with all that they started."""
    with closing(Laboratory("1")) as one, closing(Laboratory("2")) as other:
        yield one, other


class Laboratory:
    """One nursery; its processes hash strings with a seed of their own.

    It imports torch while whoever made it goes on.
    """

    def __init__(self, hash_seed: str) -> None:
        # No caches of compiled modules: they would be written beside the user's files.
        environ = {"PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"} | dict(os.environ)
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that it can be ended with all that it started
        )
        self._ready = False

    def make(self, order: Order) -> Outcome:
        """Carry out an order, to its end.

        Raises:
            RunError: if the nursery is gone.
        """
        folder = Path(order.folder)
        folder.mkdir(parents=True)
        order.run_folder.mkdir(parents=True, exist_ok=True)
        if not self._ready:
            self._ready = self._answer() == READY
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order.as_dict()) + "\n")
        self._process.stdin.flush()
        statuses = tuple(json.loads(self._answer()))
        failure = folder / FAILURE
        told: Mapping[str, Any] | None = json.loads(failure.read_text()) if failure.exists() else None
        return Outcome(order, statuses, Failure.from_dict(told) if told else None)

    def close(self) -> None:
        """End it, and whatever is left of its trials."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunError(f"the process that makes the trials ended with status {self._process.wait()}")
        return line.rstrip("\n")
