"""From a path and overrides to a validated config and the registry that validated it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.config import Config
from pipeline.config.fitting import UnsureError
from pipeline.config.keys import walk
from pipeline.config.layers import Layers, read
from pipeline.config.validate import load
from pipeline.engine.collector import collector_at_rest
from pipeline.errors import ConfigError
from pipeline.registry.discovery import discover_installed
from pipeline.registry.registry import Registry
from pipeline.registry.unimported import SourceSchemas


@dataclass(frozen=True)
class Loaded:
    """A config and the registry that knows its components."""

    config: Config
    registry: Registry


@collector_at_rest()  # the first component imports torch
def load_with_registry(
    path: str | Path, *, sets: Sequence[str] = (), unsets: Sequence[str] = (), name: str | None = None
) -> Loaded:
    """Read a config, import its local files, and validate it against its components' signatures.

    Raises:
        ConfigError: with all faults at once.
    """
    layers = read(path, sets=sets, unsets=unsets)
    registry = Registry.discover()
    unimported = registry.load_local(layers.components)
    return Loaded(load(layers, registry, name=name, unimported=unimported), registry)


def load_without_import(path: str | Path) -> Config | None:
    """The config as ``load_with_registry`` gives it, told from the text of its components.

    Returns:
        None where importing them has to tell: some are not built in, a table does not plainly fit,
        the config is at fault, or functions as ``oc.env`` give values.

    Raises:
        ConfigError: if the file cannot be read.
    """
    layers = read(path)
    if layers.components or _calls_functions(layers):
        return None
    try:
        return load(layers, SourceSchemas(discover_installed()))
    except (UnsureError, ConfigError):
        return None


def _calls_functions(layers: Layers) -> bool:
    texts = (value for tree in layers.trees() for _, value in walk(tree) if isinstance(value, str))
    return any("${" in text and ":" in text for text in texts)
