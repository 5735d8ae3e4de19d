"""Local component files that are not what they were when a run used them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.cli.loading import Loaded
from pipeline.cli.records import provenance_of_run
from pipeline.runs.record import Record


def changed_files(record: Record, loaded: Loaded) -> Iterator[str]:
    """A line for each local file whose content differs from the one that the run recorded."""
    before = {str(row.get("key")): row.get("file_hash") for row in record.components}
    changed: dict[str, list[str]] = {}
    for row in provenance_of_run(loaded):
        if row.file_hash and before.get(row.key) not in (None, row.file_hash):
            changed.setdefault(row.target.rpartition(":")[0], []).append(row.key)
    for file, keys in changed.items():
        yield f"{Path(file)} has changed since the run used it for {', '.join(keys)}"
