"""The public functions: they raise the errors, print nothing and never exit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.cli.checking import Report
    from pipeline.cli.difference import Difference
    from pipeline.cli.loading import Loaded
    from pipeline.config.config import Config
    from pipeline.runs.record import Record


def load_config(path: str | Path, *, overrides: Sequence[str] = ()) -> Config:
    """Read and validate a config; what it names is imported, nothing is built.

    Args:
        path: a TOML file.
        overrides: as ``--set`` takes them: ``optimizer.lr=0.01``.

    Raises:
        ConfigError: with all faults at once.
    """
    from pipeline.cli.loading import load_with_registry

    return load_with_registry(path, sets=overrides).config


def check(config: Config | str | Path, *, world_size: int = 1) -> Report:
    """Tell what a config would run, without building anything.

    Args:
        config: what ``load_config`` gave, or the path of a TOML file.
        world_size: the number of ranks to deal batches to.

    Raises:
        ConfigError: with all faults at once, if a path is given.
    """
    from pipeline.cli.checking import examine

    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; expected at least 1")
    return examine(_loaded(config), world_size)


def run(
    config: Config | str | Path, *, resume: str | Path | bool | None = None, runs_dir: str | Path = "runs"
) -> Record:
    """Train, in this process: alone, or as the rank that the launcher's environment says.

    No signal is handled: a KeyboardInterrupt fails the run as any other error does.

    Args:
        config: what ``load_config`` gave, or the path of a TOML file.
        resume: True goes on with the newest run of this experiment, if there is one; a run's name or
            folder goes on with that run. Else a new run begins.
        runs_dir: where run folders are.

    Returns:
        The run's record, as run.json has it.

    Raises:
        ConfigError, RunError, CheckpointError: before anything is built.
        RunError: from then on; its cause is the error itself.
    """
    from pipeline.cli.attempt import attempt
    from pipeline.cli.shared_record import shared_record
    from pipeline.cli.wish import Wish
    from pipeline.engine.signals import Signals

    loaded = _loaded(config)
    wish = Wish(
        resume=bool(resume),
        resume_run=None if isinstance(resume, bool) or not resume else str(resume),
        runs_dir=Path(runs_dir),
        command=("pipeline.run", str(loaded.config.path), *loaded.config.overrides),
    )
    return shared_record(attempt(loaded, wish, Signals(), lambda line: None))


def diff(a: str | Path, b: str | Path, *, runs_dir: str | Path = "runs") -> Difference:
    """Tell what was different between two experiments.

    Args:
        a, b: each a run's name, a run folder, or a TOML file.
        runs_dir: where runs are looked for by name.

    Raises:
        ConfigError: if a TOML file cannot be read.
        RunError: if there is no such run.
    """
    from pipeline.cli.difference import compare
    from pipeline.cli.side import read_side

    return compare([read_side(str(ref), Path(runs_dir)) for ref in (a, b)])


def _loaded(config: Config | str | Path) -> Loaded:
    """The config with a registry that knows its components; local files are imported once a process."""
    from pipeline.cli.loading import Loaded, load_with_registry
    from pipeline.errors import ComponentError
    from pipeline.registry.registry import Registry

    if isinstance(config, str | Path):
        return load_with_registry(config)
    registry = Registry.discover()
    faults = registry.load_local(config.plan.components)
    if faults:
        raise ComponentError("\n".join(f"{fault.message}\n{fault.detail}".rstrip() for fault in faults))
    return Loaded(config, registry)
