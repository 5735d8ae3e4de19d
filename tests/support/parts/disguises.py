"""Components in whose making a signal comes, and which make an error of their own of what is raised then."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pipeline import register


def signalled() -> None:
    """SIGTERM to this process, turned into an error as pydantic's core does it."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    except BaseException as error:
        raise ValueError(f"this cannot be made: {error!r}") from error


@register("dataset", "disguising")
class Disguising:
    """Points that no rank can build."""

    def __init__(self) -> None:
        signalled()


if Path(__file__).with_name("at_import").exists():
    signalled()
