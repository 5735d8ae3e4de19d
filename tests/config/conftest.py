"""For the tests of the config: a schema source without a registry, and loading from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pipeline.api.kinds import Kind
from pipeline.api.period import Period
from pipeline.cli.loading import load_with_registry
from pipeline.config.config import Config
from pipeline.config.layers import read
from pipeline.config.plan import CheckedTable, Fault
from pipeline.config.validate import load
from pipeline.errors import ConfigError
from pipeline.registry.registry import Registry

REQUIRED = object()

VALID = """\
seed = 7

[model]
type = "mlp"
out_features = 10

[dataset.train]
type = "digits"

[dataset.eval]
type = "digits"
split = "test"

[objective]
type = "cross_entropy"

[optimizer]
type = "adamw"

[metrics.accuracy]

[train]
epochs = 2
global_batch_size = 64
"""

Load: TypeAlias = Callable[..., Config]
Lines: TypeAlias = Callable[..., list[str]]


@dataclass(frozen=True)
class Argument:
    """One argument: int, float, bool, str, list, dict, Path, Period, or a tuple of choices."""

    type: Any
    default: Any = REQUIRED
    secret: bool = False


COMPONENTS: Mapping[tuple[str, str], Mapping[str, Argument]] = {
    ("model", "mlp"): {
        "in_features": Argument(int, 64),
        "hidden": Argument(list, [128, 64]),
        "out_features": Argument(int),
        "activation": Argument(("relu", "gelu"), "relu"),
    },
    ("model", "conv"): {"channels": Argument(int, 8), "out_features": Argument(int)},
    ("dataset", "digits"): {"split": Argument(("train", "test"), "train"), "path": Argument(Path, None)},
    ("dataset", "table"): {"url": Argument(str), "rows": Argument(int, 10), "columns": Argument(list, [])},
    ("objective", "cross_entropy"): {"label_smoothing": Argument(float, 0.0)},
    ("objective", "mse"): {},
    ("optimizer", "adamw"): {"lr": Argument(float, 1e-3), "weight_decay": Argument(float, 0.01)},
    ("optimizer", "sgd"): {
        "lr": Argument(float, 1e-3),
        "momentum": Argument(float, 0.0),
        "nesterov": Argument(bool, False),
    },
    ("scheduler", "warmup_cosine"): {"warmup_steps": Argument(int, 0)},
    ("sampler", "shuffle"): {},
    ("sampler", "weighted"): {"weights": Argument(Path)},
    ("metric", "accuracy"): {"k": Argument(int, 1)},
    ("hook", "progress"): {},
    ("hook", "ema"): {"decay": Argument(float, 0.999)},
    ("hook", "checkpoint"): {
        "every": Argument(Period, Period(1, "epoch")),
        "keep_last": Argument(int, 2),
        "monitor": Argument(str, None),
    },
    ("hook", "early_stopping"): {"monitor": Argument(str), "patience": Argument(int, 3)},
    ("hook", "uploader"): {"token": Argument(str, "none", secret=True), "url": Argument(str, "here")},
}


@dataclass
class FakeSchemas:
    """Answers like the registry, and remembers which components it was asked about."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def accepts(self, kind: Kind, type_name: str) -> frozenset[str] | None:
        found = COMPONENTS.get((str(kind), type_name))
        return None if found is None else frozenset(found)

    def nested(self, kind: Kind, type_name: str) -> Mapping[str, Kind]:
        return {}

    def check(
        self,
        kind: Kind,
        type_name: str,
        table: Mapping[str, Any],
        *,
        folders: Mapping[str, Path],
        only: bool = False,
    ) -> CheckedTable:
        self.asked.append((str(kind), type_name))
        known = COMPONENTS.get((str(kind), type_name))
        if known is None:
            names = [name for k, name in COMPONENTS if k == kind]
            return CheckedTable(
                {},
                {},
                faults=(
                    Fault(
                        ("type",),
                        f"there is no {kind} {type_name!r}",
                        "",
                        _near(type_name, names),
                        is_unknown_name=True,
                    ),
                ),
            )
        faults, arguments = [], {}
        for key in table.keys() - known.keys():
            faults.append(Fault((key,), "unknown key", "", _near(key, known), is_unknown_key=True))
        for key, argument in known.items():
            if key in table:
                try:
                    arguments[key] = _read(argument.type, table[key], folders.get(key))
                except ValueError as error:
                    faults.append(Fault((key,), f"got {table[key]!r}", str(error)))
            elif argument.default is REQUIRED and not only:
                faults.append(Fault((key,), "is missing", "a value"))
            elif not only:
                arguments[key] = argument.default
        return CheckedTable(
            arguments=arguments,
            plain={key: _toml(value) for key, value in arguments.items() if value is not None},
            paths=frozenset((key,) for key, argument in known.items() if argument.type is Path),
            secrets=frozenset((key,) for key, argument in known.items() if argument.secret),
            choices=frozenset((key,) for key, argument in known.items() if isinstance(argument.type, tuple)),
            measured=frozenset({("monitor",)} & {(key,) for key in known}),
            faults=tuple(faults),
        )


def _near(name: str, names: Any) -> str:
    return next(iter(get_close_matches(name, list(names), n=1)), "")


def _read(wanted: Any, value: Any, folder: Path | None) -> Any:
    if isinstance(wanted, tuple):
        if value in wanted:
            return value
        raise ValueError(" or ".join(wanted))
    if wanted is Path and isinstance(value, str):
        assert folder is not None, "every argument comes with the folder it is relative to"
        return folder / value
    if wanted is Period and isinstance(value, str):
        return Period.parse(value)
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is wanted:
        return value
    raise ValueError(wanted.__name__)


def _toml(value: Any) -> Any:
    return str(value) if isinstance(value, Path | Period) else value


@pytest.fixture
def valid() -> str:
    """A small config without a fault."""
    return VALID


@pytest.fixture
def schemas() -> FakeSchemas:
    return FakeSchemas()


@pytest.fixture
def load_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: FakeSchemas) -> Load:
    """Load a config from text: ``pipeline.toml`` and, by name, further files beside it."""
    monkeypatch.chdir(tmp_path)

    def from_text(
        text: str = VALID,
        *sets: str,
        unsets: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Config:
        for file, content in {"pipeline.toml": text, **(files or {})}.items():
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(content)
        return load(read("pipeline.toml", sets=sets, unsets=unsets), schemas, name=name)

    return from_text


@pytest.fixture(scope="session")
def schemas_of_installed() -> Registry:
    """What knows the components that are installed."""
    return Registry.discover()


@pytest.fixture
def load_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """As ``load_config``, with the registry of what is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.api.register._registrations", {})

    def from_text(
        text: str | bytes,
        *sets: str,
        unsets: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Config:
        for file, content in {"pipeline.toml": text, **(files or {})}.items():
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_with_registry("pipeline.toml", sets=sets, unsets=unsets, name=name).config

    return from_text


@pytest.fixture
def real_lines(load_real: Load) -> Lines:
    """The lines that a faulty config gives, with the registry of what is installed."""
    return _lines_of(load_real)


@pytest.fixture
def problem_lines(load_config: Load) -> Lines:
    """The lines that a faulty config gives."""
    return _lines_of(load_config)


def _lines_of(load: Load) -> Lines:
    def lines(*arguments: Any, **keywords: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(*arguments, **keywords)
        return str(caught.value).splitlines()

    return lines
