"""A loader's worker processes: they outlast signals, send what can be sent, and end with their rank."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, get_worker_info

from pipeline.engine.error_text import text_of
from pipeline.engine.parcel import Parcel
from pipeline.errors import ComponentError

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
"""All that train.stop_signals may name. They reach a whole process group, and only ranks act on them."""


class Fetches(Protocol):
    """Reads what a request asks for; a request says what that is as text."""

    dataset: Any

    def __getitem__(self, request: Any, /) -> Any: ...


class Sender:
    """The dataset that workers hold a copy of: a fetcher whose batches and errors surely arrive.

    What torch cannot pickle is lost in a thread of its queue, and the rank would wait for it for ever.
    So batches are pickled here, where a failure is an error of the read.

    Args:
        copied: bytes up to which the memory of a tensor is sent by value.
    """

    def __init__(self, fetcher: Fetches, copied: int) -> None:
        self._fetcher = fetcher
        self._copied = copied

    def __getitem__(self, request: Any) -> Any:
        """The batch, pickled.

        Raises:
            ComponentError: if the batch cannot be pickled, or for an exception that cannot be.
        """
        try:
            return self._parcel(self._fetcher[request], request)
        except BaseException as error:
            BaseException.add_note(error, self._place(request))
            if _arrives(error):
                raise
            told = "; ".join([text_of(error), *error.__notes__])
            raise ComponentError(f"{type(error).__qualname__}: {told}") from error

    def _parcel(self, batch: Any, request: Any) -> Parcel:
        try:
            return Parcel(batch, self._copied)
        except Exception as error:
            raise ComponentError(
                f"a batch ({type(batch).__qualname__}) cannot be sent from a worker process: "
                f"{type(error).__qualname__}: {text_of(error)}; return what can be pickled from the dataset "
                "and its collate_fn, or set loader.workers = 0"
            ) from error

    def _place(self, request: Any) -> str:
        info = get_worker_info()
        worker = f"in worker {info.id}" if info else "here"
        return f"{worker}, while {type(self._fetcher.dataset).__qualname__} read {request}"


def _arrives(error: BaseException) -> bool:
    """Whether torch can send the class to the rank and make it anew there, from a text that it then shows."""
    kind = type(error)
    if not isinstance(error, Exception) or isinstance(error, StopIteration) or getattr(kind, "message", None):
        return False
    try:
        return ForkingPickler.loads(ForkingPickler.dumps(kind)) is kind and "the text" in str(
            kind("the text")
        )
    except Exception:  # noqa: BLE001 - whatever it is, the rank would meet it too
        return False


def told_by_worker(text: str) -> str | None:
    """What a worker's error says, in one line, without the traceback that torch puts before it.

    None: the text is not that of an error that torch has brought from a worker.
    """
    if not text.startswith("Caught ") or "\nOriginal " not in text:
        return None
    lines = text.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    said = [line for line in lines[frames[-1] + 1 :] if line] if frames else []
    return "; ".join(said).removeprefix("pipeline.errors.ComponentError: ") or None


def start(loader: DataLoader[Any]) -> Iterator[Any]:
    """Begin to read what the loader's sampler now asks for; its workers are started if there are none."""
    if loader._iterator is not None:
        return iter(loader)
    if loader.multiprocessing_context.get_start_method() != "fork":
        resource_tracker.ensure_running()  # its start would undo the mask
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # which a child has from its birth on
    try:
        iterator = iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for worker in iterator._workers:  # type: ignore[attr-defined]  # there is no public way
        worker._popen.terminate = worker._popen.kill  # SIGTERM would not end it
    return iterator


def close(loader: DataLoader[Any]) -> None:
    """End the workers now: those left to the garbage collector are each waited for 5 s in vain."""
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()  # type: ignore[attr-defined]  # there is no public way


def prepare(worker: int) -> None:
    """Called in a new worker process: one thread, no heed of stop signals, and an end with its rank."""
    torch.set_num_threads(1)
    for number in _STOP_SIGNALS:
        signal.signal(number, _leave_it_to_the_rank)  # not SIG_IGN, which programs started here would inherit
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    threading.Thread(target=_end_with_the_rank, daemon=True).start()


def _leave_it_to_the_rank(number: int, frame: Any) -> None:
    pass


def _end_with_the_rank() -> None:
    """torch looks for the rank between two batches only: not while one is read, or cannot be sent."""
    rank = multiprocessing.parent_process()
    assert rank is not None
    rank.join()
    os._exit(1)
