"""Names and versions of distributions: how they are compared and shown."""

from __future__ import annotations

import re

_PRE_RELEASES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1}


def normalised(name: str) -> str:
    """A distribution's name as PEP 503 compares it: ``Acme_Vision`` is ``acme-vision``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def display_name(name: str) -> str:
    """A name read off a metadata folder, where dashes had to become underscores."""
    return name.replace("_", "-")


def version_key(version: str) -> tuple[tuple[int, int], ...]:
    """A sorting key of versions: pre-releases before the release, post-releases behind it."""
    parts = [
        (2, int(number)) if number else (_PRE_RELEASES.get(word, 1), 0)
        for number, word in re.findall(r"(\d+)|([a-z]+)", version.lower())
    ]
    return (*parts, (0, 0))
