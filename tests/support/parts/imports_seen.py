"""A hook that prints whether the garbage collector worked when torch's parts were imported; a local file."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

seen: dict[str, bool] = {}
"""Whether the collector worked, by what was done then."""


def works() -> bool:
    return gc.isenabled() and 0 < gc.get_threshold()[0] < 1_000_000


class Watching(MetaPathFinder):
    """Finds nothing, but is asked before those that do."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in ("torch", "torch._dynamo"):
            seen[name] = works()
        return None


sys.meta_path.insert(0, Watching())
from pipeline import Hook, Run, register  # noqa: E402 - whatever it imports is to be seen


@register("hook", "imports_seen")
class ImportsSeen(Hook):
    """Prints it to standard output."""

    def on_step_end(self, run: Run) -> None:
        seen["step"] = works()

    def on_run_end(self, run: Run) -> None:
        print(json.dumps(seen))
