"""What a process holds in memory, as Linux tells it; other systems do not.

python -m benchmarks.resident run FILE MODULE ARGUMENT...     (also under torchrun)
python -m benchmarks.resident import FILE

The first runs a module, and writes its peak and what it has imported to FILE. The second imports the same in
a fresh process, and adds the level that this alone takes.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path


def resident(name: str) -> float:
    """This process's memory in MB: now (``VmRSS``), or at its largest (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(kilobytes) * 1024 / 1e6


def run(file: Path, module: str, arguments: list[str]) -> None:
    """Run a module as Python's ``-m`` does; rank 0 writes."""
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        if os.environ.get("RANK", "0") == "0":
            file.write_text(json.dumps({"peak": resident("VmHWM"), "modules": list(sys.modules)}))


def import_again(file: Path) -> None:
    """Import in the same order; what was no module of a file, as a component's, is left out."""
    told = json.loads(file.read_text())
    for name in told["modules"]:
        with suppress(ImportError):
            importlib.import_module(name)
    file.write_text(json.dumps(told | {"level": resident("VmRSS")}))


if __name__ == "__main__":
    what, path, *rest = sys.argv[1:]
    if what == "import":
        import_again(Path(path))
    else:
        run(Path(path), rest[0], rest[1:])
