"""The user's part of a traceback."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

_OWN_FOLDER = str(Path(__file__).parent)


def user_traceback(error: BaseException) -> str:
    """An exception as Python prints it, less the frames of the registry and of the import system."""
    kept = error.__traceback__
    while kept is not None and _is_machinery(kept):
        kept = kept.tb_next
    frames = [
        frame
        for frame in traceback.extract_tb(kept)
        if not (frame.filename.startswith("<frozen importlib") or "importlib/__init__" in frame.filename)
    ]
    lines = traceback.TracebackException(type(error), error, None).format()
    head = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*head, *lines]).rstrip()


def _is_machinery(step: TracebackType) -> bool:
    file = step.tb_frame.f_code.co_filename
    return file.startswith((_OWN_FOLDER, "<frozen importlib")) or "importlib" in Path(file).parts
