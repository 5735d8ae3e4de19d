"""Distributions made on the spot: metadata folders and modules on the search path."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pipeline.api import register as register_module

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """``install(name, version, entries, modules, folder)``: a distribution on ``sys.path``."""

    def make(
        name: str,
        version: str = "1.0",
        entries: str = "",
        modules: Mapping[str, str] | None = None,
        folder: str = "site",
    ) -> Path:
        site = tmp_path / folder
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entries))
        for module, source in (modules or {}).items():
            (site / f"{module}.py").write_text(textwrap.dedent(source))
        if str(site) not in sys.path:
            monkeypatch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        return site

    return make


@pytest.fixture(autouse=True)
def _clean_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules, registrations and path entries of a test end with it."""
    modules, path = set(sys.modules), list(sys.path)
    monkeypatch.setattr(register_module, "_registrations", {})
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "pytest-" in file:  # of a temporary folder; torch and its parts stay
            del sys.modules[name]
    from pipeline.registry.local import load_file

    load_file.cache_clear()
