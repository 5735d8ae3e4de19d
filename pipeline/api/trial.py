"""A trial of ``pipeline sweep --optuna``: what its run is handed, and the file of the study."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

PRUNED = "pruned"
"""How the reason begins with which a run is ended early: ``pruned: eval/loss 2.3 is ...``."""

_VARIABLE = "PIPELINE_OPTUNA_TRIAL"

_PATIENCE = 60.0  # seconds that a process waits for another one's write


@dataclass(frozen=True)
class HandedTrial:
    """The trial that a run is; told to it by the environment, so that its config is that of any other run."""

    file: str
    """The study's database."""
    study: str
    number: int
    metric: str
    """What the study is to better, as eval/accuracy."""

    def environment(self) -> dict[str, str]:
        """What the process of the run is to have."""
        return {_VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def received(cls) -> HandedTrial | None:
        """This process's; None where it is no trial."""
        told = os.environ.get(_VARIABLE)
        return cls(**json.loads(told)) if told else None


def is_pruned(reason: str, metric: str = "") -> bool:
    """Whether a run's reason says that it was ended early, by this metric if one is given."""
    return reason.startswith(f"{PRUNED}: {metric} " if metric else f"{PRUNED}: ")


@contextmanager
def open_storage(file: str | Path) -> Iterator[RDBStorage]:
    """A file of studies; inside, Optuna says no more than its warnings."""
    import optuna

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(file, timeout=_PATIENCE, check_same_thread=False)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # The address names no file: what '?', '{' and '%' mean in one differs with SQLAlchemy's version.
    storage = optuna.storages.RDBStorage("sqlite:///study.db", engine_kwargs={"creator": connect})
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()
