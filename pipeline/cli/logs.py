"""Each rank's own log file in the run folder, and rank 0's lines for people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.engine.position import Position
from pipeline.errors import PipelineError


@contextmanager
def rank_log(
    path: Path, *, rank: int, position: Position, say: Callable[[str], None]
) -> Iterator[Callable[[str], None]]:
    """Give a function that writes a line: to the file with time, rank and step, on rank 0 to ``say`` too.

    An error that passes through is written to the file. On a host that does not have the run folder
    there is no file.
    """
    handler: logging.Handler = logging.NullHandler()
    if path.parent.parent.is_dir():
        path.parent.mkdir(exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
        handler.setFormatter(logging.Formatter(f"%(asctime)s rank {rank} %(message)s"))
    logger = logging.Logger(f"pipeline.rank{rank}")  # its own: the root logger is the user's
    logger.addHandler(handler)

    def write(line: str) -> None:
        logger.info("step %d: %s", position.step, line)
        if rank == 0:
            say(line)

    try:
        yield write
    except PipelineError as error:
        logger.error("step %d: %s", position.step, error)
        raise
    finally:
        handler.close()
