"""``--nproc N``: torchrun's own elastic agent, started from here on a free port."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from uuid import uuid4

from pipeline.cli.output import FAILED
from pipeline.engine.signals import STOPPED


def launch(
    nproc: int,
    arguments: Sequence[str],
    *,
    stop_signals: Iterable[str] = (),
    patience: timedelta = timedelta(seconds=30),
) -> int:
    """Start ``nproc`` processes of ``python -m pipeline ARGUMENTS`` and wait for them.

    Args:
        stop_signals: those that the processes take for a wish to stop ("TERM", "INT", ...); passed on.
        patience: how long the processes may take to stop, before they are killed.

    Returns:
        The exit status of the process that failed first; 0 if none; 75 after a signal, or 1 if a process
        failed all the same.
    """
    with TemporaryDirectory(prefix="pipeline-") as logs:
        return _launch(nproc, arguments, stop_signals, patience, Path(logs))


def _launch(
    nproc: int, arguments: Sequence[str], stop_signals: Iterable[str], patience: timedelta, logs: Path
) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch
    from torch.distributed.run import config_from_args, parse_args

    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", uuid4().hex]
    workers = ["--nproc-per-node", str(nproc), "-m", "pipeline", *arguments]
    options = parse_args([*rendezvous, "--log-dir", str(logs), *workers])  # type: ignore[no-untyped-call]
    launch_config, command, command_arguments = config_from_args(options)
    if hasattr(launch_config, "shutdown_timeout"):  # older ones always wait 30 s
        launch_config.shutdown_timeout = int(patience.total_seconds())
    try:
        with _passed_on(stop_signals):
            elastic_launch(config=launch_config, entrypoint=command)(*command_arguments)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return failure.exitcode if failure.exitcode > 0 else FAILED
    except SignalException:  # passed on to the processes, which have written their checkpoint, or an error
        return FAILED if any(logs.rglob("error.json")) else STOPPED
    return 0


@contextmanager
def _passed_on(names: Iterable[str]) -> Iterator[None]:
    """Inside, these signals reach the agent as it expects them; by itself it is killed by some of them."""
    from torch.distributed.elastic.multiprocessing.api import SignalException

    def tell_agent(number: int, frame: FrameType | None) -> None:
        raise SignalException(f"got {signal.Signals(number).name}", signal.Signals(number))

    numbers = [signal.Signals[f"SIG{name}"] for name in names]
    previous = {number: signal.signal(number, tell_agent) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def without_nproc(argv: Sequence[str]) -> list[str]:
    """A command line less ``--nproc N``, for the processes to be started."""
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--nproc":
            next(words, None)
        elif not word.startswith("--nproc="):
            rest.append(word)
    return rest
