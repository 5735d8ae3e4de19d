"""``--nproc N``: torchrun's own elastic agent, started from here on a free port."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from pipeline.cli.output import FAILED
from pipeline.engine.signals import STOPPED


def launch(nproc: int, arguments: Sequence[str]) -> int:
    """Start ``nproc`` processes of ``python -m pipeline ARGUMENTS`` and wait for them.

    Returns:
        The exit status of the process that failed first; 0 if none; 75 after a signal.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch
    from torch.distributed.run import config_from_args, parse_args

    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", uuid4().hex]
    workers = ["--nproc-per-node", str(nproc), "-m", "pipeline", *arguments]
    options = parse_args([*rendezvous, *workers])  # type: ignore[no-untyped-call]
    launch_config, command, command_arguments = config_from_args(options)
    try:
        elastic_launch(config=launch_config, entrypoint=command)(*command_arguments)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return failure.exitcode if failure.exitcode > 0 else FAILED
    except SignalException:  # passed on to the processes, which have written their checkpoint
        return STOPPED
    return 0


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
