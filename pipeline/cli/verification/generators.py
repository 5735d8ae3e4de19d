"""The global random generators: which of them some code has moved."""

from __future__ import annotations

import random

import numpy as np
import torch

from pipeline.cli.verification.digest import digest

NAMES = ("torch", "numpy", "random")


def states() -> tuple[str, str, str]:
    """Digests of the CPU generators' states, in the order of ``NAMES``."""
    python = repr(random.getstate())  # one text of its 625 numbers, since this is asked for all the time
    return digest(torch.get_rng_state()), digest(np.random.get_state(legacy=True)), digest(python)


def moved(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """The names of those that differ."""
    return [name for name, one, two in zip(NAMES, before, after, strict=True) if one != two]
