"""What a rank runs with, in words that can be compared: the config, versions, local files."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.cli.loading import Loaded
from pipeline.cli.records import provenance_of_run, versions_of
from pipeline.config.fingerprint import leaves


def facts_of(loaded: Loaded) -> dict[str, str]:
    """The config's keys (no name, paths or secrets), versions, and the sums of local component files."""
    config = loaded.config
    provenance = provenance_of_run(loaded)
    facts = {
        key: json.dumps(value, default=str) for key, value in leaves(config.tree, config.left_out).items()
    }
    facts["the order of the hooks"] = ", ".join(config.tree.get("hooks", {}))
    facts |= {f"version of {name}": number for name, number in versions_of(provenance).items()}
    for row in provenance:
        if row.file_hash:
            facts[f"sha256 of {Path(row.target.rpartition(':')[0]).name}"] = row.file_hash
    return facts
