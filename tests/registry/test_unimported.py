"""What is told of built-in components from their text is what importing them tells."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.api.kinds import Kind
from pipeline.config.fitting import UnsureError
from pipeline.registry.discovery import discover_installed
from pipeline.registry.registry import Registry
from pipeline.registry.source import Module
from pipeline.registry.unimported import OURS, SourceSchemas
from torch_versions import LACKING

BUILT_IN = [
    entry
    for entry in discover_installed().entries
    if entry.distribution == OURS and entry.name not in LACKING
]
LEFT_TO_THE_REGISTRY = {
    "adafactor",  # a default with None in it
    "chained_scheduler", "lambda_lr", "lbfgs", "multiplicative_lr", "sequential_lr",  # which it refuses
}  # fmt: skip
VALUES = [
    True, False, 0, 1, 2, -1, 0.0, 0.5, 1.0, 2.5, "", "relu", "min", "train", "a/b.pt", "1 epoch", "2 steps",
    "10 s", "never", "eval/loss", "auto", "text", [], [1], [1, 2], [0.5, 0.9], ["a"], ["loss"], {}, {"a": 1},
]  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(discover_installed())


@pytest.fixture(scope="module")
def schemas() -> Iterator[SourceSchemas]:
    """Each text is parsed once: of one that does not tell, it would be for each of thousands of tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Module, "find", cache(Module.find))
        yield SourceSchemas(discover_installed())


def ids(entry) -> str:
    return f"{entry.kind}-{entry.name}"


@pytest.mark.parametrize("entry", BUILT_IN, ids=ids)
def test_every_built_in_component_takes_what_its_text_says(entry, registry, schemas):
    if entry.name in LEFT_TO_THE_REGISTRY:
        with pytest.raises(UnsureError):
            schemas.check(entry.kind, entry.name, {}, folders={})
        return
    assert schemas.accepts(entry.kind, entry.name) == registry.accepts(entry.kind, entry.name)
    assert schemas.nested(entry.kind, entry.name) == registry.nested(entry.kind, entry.name)


@pytest.mark.parametrize("entry", BUILT_IN, ids=ids)
def test_every_built_in_components_table_is_told_as_the_registry_tells_it(entry, registry, schemas):
    names = sorted(registry.accepts(entry.kind, entry.name) or ())

    def faults_of(name: str, table: dict[str, Any]) -> list[str]:
        faults = registry.check(entry.kind, entry.name, table, folders={}).faults
        return [fault.message for fault in faults if fault.path[:1] == (name,)]

    required = [name for name in names if "is missing" in faults_of(name, {})]
    fitting = {name: [one for one in VALUES if not faults_of(name, {name: one})] for name in required}
    told = []

    @given(
        st.fixed_dictionaries({name: st.sampled_from(values) for name, values in fitting.items()}),
        st.dictionaries(st.sampled_from([*names, "nonsense"]), st.sampled_from(VALUES), max_size=2),
        st.booleans(),
    )
    def compare(needed: dict[str, Any], more: dict[str, Any], only: bool) -> None:
        table = needed | more
        folders = dict.fromkeys(table, Path("/folder"))
        try:
            found = schemas.check(entry.kind, entry.name, table, folders=folders, only=only)
        except UnsureError:
            return
        expected = registry.check(entry.kind, entry.name, table, folders=folders, only=only)
        told.append(found)
        for part in ("faults", "arguments", "plain", "paths", "secrets", "measured", "shadowed"):
            assert repr(getattr(found, part)) == repr(getattr(expected, part)), part

    compare()
    assert told or entry.name in LEFT_TO_THE_REGISTRY


def test_other_packages_components_are_left_to_the_registry(install):
    entries = '[pipeline.models]\nacme = "acme_models:Acme"\n'.replace('"', "")
    install("acme", entries=entries, modules={"acme_models": "class Acme:\n    def __init__(self): ..."})
    schemas = SourceSchemas(discover_installed())
    for name in ("acme", "acme/acme", "nonsense"):
        with pytest.raises(UnsureError):
            schemas.accepts(Kind.MODEL, name)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): ...\nf = wrap(f)",
        "@wrap\ndef f(x): ...",
        "def f(*x): ...",
        "def f(**x): ...",
        "def f(x, /): ...",
        "f = 3",
        "def f(x): ...\ndel f",
        "def f(x): ...\nf.__signature__ = 3",
        "if windows:\n    def f(x): ...\nelse:\n    def f(y): ...",
        "from elsewhere import *\ndef f(x): ...",
        "@dataclass\nclass f:\n    x: int",
        "class f(metaclass=M):\n    def __init__(self): ...",
        "class f:\n    config_model = M\n    def __init__(self): ...",
        "class f:\n    def __new__(cls, y): ...\n    def __init__(self, x): ...",
        "class f:\n    @wrap\n    def __init__(self, x): ...",
        "class f:\n    __init__ = other",
        "class f(a.Base): ...",
        "class f(A, B): ...",
        "no python",
    ],
)
def test_what_is_not_plain_to_see(text):
    with pytest.raises(UnsureError):
        Module("m", "", text.encode()).arguments("f")


@pytest.mark.parametrize(
    "text", ["x: int = g()", "x: int = A", "x: int = B", "x: Thing = 1", "x: int = math.pi"]
)
def test_what_has_no_plain_meaning(text):
    around = "import math\nfrom elsewhere import Thing\nA = 1\n{}\nA = 2"
    module = Module("m", "", around.format(f"def f({text}): ...").encode())
    (argument,) = module.arguments("f")
    with pytest.raises(UnsureError):
        _ = argument.annotation, argument.default


def test_nothing_is_imported():
    program = (
        "import sys\n"
        "from pipeline.registry.discovery import discover_installed\n"
        "from pipeline.registry.unimported import OURS, SourceSchemas\n"
        "found = discover_installed()\n"
        "schemas = SourceSchemas(found)\n"
        f"left = {sorted(LEFT_TO_THE_REGISTRY | LACKING)}\n"
        "for entry in found.entries:\n"
        "    if entry.distribution == OURS and entry.name not in left:\n"
        "        schemas.accepts(entry.kind, entry.name)\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & {"torch", "numpy", "pydantic"}
    assert not any(name.startswith("pipeline.components.") for name in modules)
