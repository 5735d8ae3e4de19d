"""The real launcher, where the fork of it will not do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from harness.client import TIMEOUT_SECONDS, RanksFailed
from harness.marked import MARK, kill_marked, new_mark


class Torchrun:
    """A torchrun in progress; ``with`` kills it and all that it started, at the end."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None, cwd: Path | None
    ) -> None:
        self._mark = new_mark()
        self._folder = folder
        folder.mkdir(parents=True)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | {MARK: self._mark} | dict(env or {}),
                cwd=cwd,
                start_new_session=True,
            )

    def wait(self, timeout: float = TIMEOUT_SECONDS) -> int:
        """The launcher's exit status, negative for a signal.

        Raises:
            RanksFailed: if it is still there after ``timeout`` seconds; it is killed then.
        """
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.close()
            raise RanksFailed(f"torchrun did not end within {timeout} s\n{self.output()}") from None

    def kill(self, number: signal.Signals) -> None:
        """Send the launcher, not its workers, a signal."""
        self.process.send_signal(number)

    def stdout(self) -> str:
        return (self._folder / "out").read_text(errors="replace")

    def stderr(self) -> str:
        return (self._folder / "err").read_text(errors="replace")

    def output(self) -> str:
        """Standard output, then standard error, of the launcher and all ranks, as written so far."""
        return self.stdout() + self.stderr()

    def close(self) -> None:
        kill_marked(self._mark)
        self.process.wait()

    def __enter__(self) -> Torchrun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start_torchrun(
    processes: int,
    arguments: Sequence[object],
    *,
    folder: Path,
    program: Sequence[str] = ("-m", "pipeline"),
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Torchrun:
    """``torchrun --standalone --nproc-per-node PROCESSES OPTIONS -m pipeline ARGUMENTS``."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node", str(processes), *options, *program, *map(str, arguments)]
    return Torchrun(command, folder, env, cwd)
