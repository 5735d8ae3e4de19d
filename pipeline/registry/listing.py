"""The lines of the list of components, from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.api.kinds import Kind
from pipeline.registry.catalog import Claim
from pipeline.registry.discovery import Entry


@dataclass(frozen=True)
class Listing:
    """One line of the list of components, from metadata alone."""

    kind: Kind
    name: str
    distribution: str | None
    """None for local files and notebooks, as is the version."""
    version: str | None
    target: str
    qualified: str
    """The spelling that always means this one, as ``acme-vision/resnet``."""
    clash: bool
    """Whether another package has the name too, so that it must be qualified."""
    problem: str | None
    """Why it cannot be used, as far as is known."""


def listing_of(claim: Claim, *, clash: bool, problem: str | None) -> Listing:
    """A claim as a line of the list."""
    source = claim.source
    installed = source if isinstance(source, Entry) else None
    return Listing(
        claim.kind,
        claim.name,
        installed.distribution if installed else None,
        installed.version if installed else None,
        source.target if isinstance(source, Entry) else f"{source.module}:{source.qualname}",
        claim.qualified,
        clash,
        problem,
    )
