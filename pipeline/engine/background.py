"""One piece of work at a time on a thread of its own, its error kept until it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Where rank 0 writes its files while it trains."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether work is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object], name: str) -> None:
        """Begin ``work``; what was begun before has been waited for."""
        assert self._thread is None, "one piece of work at a time"
        # No daemon: an interpreter that ends in good order waits for it.
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=False)
        self._thread.start()

    def wait(self) -> BaseException | None:
        """Wait until nothing is under way; the error that ended it, once."""
        thread = self._thread  # the watching thread may wait too
        if thread is not None:
            thread.join()
            self._thread = None
        error, self._error = self._error, None
        return error

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised where wait() is called)
            self._error = error
