"""A file of components as a module of this process, which nothing is registered in."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from unittest import mock

from pipeline.api import register


def load_parts(path: Path) -> ModuleType:
    """The module; what it registers is for the ranks, not for this process."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(register._registrations, clear=True):
        spec.loader.exec_module(module)
    return module
