"""A validated config: the plan to run, and the tree that is written, compared and hashed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config.fingerprint import fingerprint_of, identity_of
from pipeline.config.keys import KeyPath
from pipeline.config.plan import Place, Plan, Source


@dataclass(frozen=True)
class Config:
    """What ``load`` gives."""

    path: Path
    """The file that was asked for."""
    plan: Plan
    tree: Mapping[str, Any] = field(repr=False)
    """Resolved, with defaults, in canonical order: TOML values alone, without ``extends``."""
    sources: tuple[Source, ...] = field(repr=False)
    """Every file that went in, as the user wrote it."""
    overrides: tuple[str, ...]
    """As typed, ``--set optimizer.lr=0.01``, with secrets masked."""
    warnings: tuple[str, ...]
    places: Mapping[str, Place] = field(repr=False)
    """Where each dotted key was written."""
    left_out: frozenset[KeyPath] = frozenset()
    """What is no part of the fingerprint: file paths and secrets."""
    secrets: frozenset[KeyPath] = frozenset()
    """What schemas mark secret, set or not."""
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Texts that are never written in the clear, each with what is written instead (``hiding.mask``)."""


def to_toml(config: Config, seed: int) -> str:
    """The text of config.toml, which loads to the same plan with the seed in force."""
    import tomli_w

    return tomli_w.dumps(with_seed(config.tree, seed))


def with_seed(tree: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The tree with this seed, which stands after the name."""
    rest = {key: value for key, value in tree.items() if key not in ("name", "seed")}
    return {"name": tree["name"], "seed": seed, **rest}


def fingerprint(config: Config, seed: int) -> str:
    """SHA-256, in hex, of the resolved config and the seed in force; without name, paths and secrets."""
    return fingerprint_of(with_seed(config.tree, seed), left_out=config.left_out)


def identity(config: Config, *, drawn_seed: bool = False) -> str:
    """The fingerprint without what takes effect on resume, and without the seed where it was drawn."""
    tree = {key: value for key, value in config.tree.items() if key != "seed" or not drawn_seed}
    return identity_of(tree, left_out=config.left_out)
