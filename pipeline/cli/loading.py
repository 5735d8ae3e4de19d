"""From a path and overrides to a validated config and the registry that validated it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.config import Config
from pipeline.config.layers import read
from pipeline.config.validate import load
from pipeline.registry.registry import Registry


@dataclass(frozen=True)
class Loaded:
    """A config and the registry that knows its components."""

    config: Config
    registry: Registry


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
