"""The seed in force where a config has none."""

from __future__ import annotations

import secrets

from pipeline.config.plan import Plan

_SEED_BITS = 32  # short enough to be typed again


def seed_of(plan: Plan) -> int:
    """The config's seed, or one that is drawn now."""
    return secrets.randbits(_SEED_BITS) if plan.seed is None else plan.seed
