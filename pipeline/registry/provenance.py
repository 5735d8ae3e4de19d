"""Where a component of a run came from, for the run's record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.api.kinds import Kind
from pipeline.config.plan import ComponentPlan
from pipeline.registry.catalog import Claim, module_file
from pipeline.registry.discovery import Entry
from pipeline.registry.local import LocalFile


@dataclass(frozen=True)
class Provenance:
    """Where one component of a run came from."""

    key: str
    """Where it stands in the config; a nested one as ``model.encoder``."""
    kind: Kind
    type: str
    """The name as the config has it."""
    distribution: str | None
    """None for local files and notebooks, as is the version."""
    version: str | None
    module: str
    target: str
    """``module:object`` of the entry point; ``file:object`` of a local component."""
    file_hash: str | None
    """The sha256 of a local component's file; None for installed ones and notebooks."""


def provenance_of(plan: ComponentPlan, claim: Claim, files: Mapping[str, LocalFile]) -> Provenance:
    """The provenance of one component, without those nested in it.

    Args:
        files: the local files that were imported, by module.
    """
    source = claim.source
    if isinstance(source, Entry):
        module = source.target.partition(":")[0]
        return Provenance(
            plan.key, plan.kind, plan.type, source.distribution, source.version, module, source.target, None
        )
    file = module_file(source)
    digest = files[source.module].sha256 if source.module in files else _hash(file)
    target = f"{file or source.file}:{source.qualname}"
    return Provenance(plan.key, plan.kind, plan.type, None, None, source.module, target, digest)


def _hash(file: Path | None) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file and file.is_file() else None
