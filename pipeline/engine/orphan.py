"""A rank whose launcher has died: torchrun's processes have sessions of their own and live on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

_INTERVAL = 0.5  # seconds


class Launcher:
    """The process that has started this one."""

    def __init__(self) -> None:
        self._pid = os.getppid()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended: its children then get another parent."""
        return os.getppid() != self._pid


@contextmanager
def watched_launcher(
    on_death: Callable[[], None], environ: Mapping[str, str] = os.environ
) -> Iterator[Launcher]:
    """Inside, call ``on_death`` in a thread when the launcher ends; never where there is none."""
    launcher = Launcher()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_INTERVAL):
            if launcher.is_gone:
                on_death()
                return

    thread = threading.Thread(target=watch, name="launcher", daemon=True)
    if "TORCHELASTIC_RUN_ID" in environ:
        thread.start()
    try:
        yield launcher
    finally:
        ended.set()
