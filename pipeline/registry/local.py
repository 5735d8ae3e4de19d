"""Local files that register components: imported once per process, under a name of their own."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipeline.config.plan import Fault
from pipeline.registry.tracebacks import user_traceback

_imported: set[str] = set()


@dataclass(frozen=True)
class LocalFile:
    """A local file that was imported."""

    path: Path
    module: str
    sha256: str
    """Of the content at the time of import."""


@cache
def load_file(path: Path) -> LocalFile:
    """Import a local file; an import that failed is tried again at the next call.

    The module gets the file's stem as its name where that leads to this very file, so that its
    neighbours and spawned worker processes (which are handed ``sys.path``) can import it too; else
    a name with a hash of the path, which spawned workers cannot import.

    Args:
        path: absolute and resolved.

    Raises:
        Whatever reading or running the file raises, SystemExit included.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    name = _already_imported(path)
    if name is None:
        name = _import(path)
        _imported.add(name)
    return LocalFile(path, name, digest)


def load_files(paths: list[Path]) -> tuple[list[LocalFile], list[Fault]]:
    """Import files in order; what one of them raises is a fault with the path ``(its index,)``."""
    loaded, faults = [], []
    for index, path in enumerate(paths):
        try:
            loaded.append(load_file(path.resolve()))
        except FileNotFoundError as error:
            if error.filename != str(path.resolve()):  # the file itself is there, but opens another
                faults.append(_fault(index, path, error))
            else:
                faults.append(
                    Fault((index,), f"there is no file {path}", "a Python file that registers components")
                )
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- a user's file may raise anything
            faults.append(_fault(index, path, error))
    return loaded, faults


def _fault(index: int, path: Path, error: BaseException) -> Fault:
    message = f"{path} cannot be imported: it raised {type(error).__name__}"
    return Fault((index,), message, detail=user_traceback(error))


def is_for_lists_alone(module: str) -> bool:
    """Whether a module was imported only because a config lists its file: other configs do not see it."""
    return module in _imported


def _already_imported(path: Path) -> str | None:
    """The module that this file is already, in a notebook, a test or as the main program."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(path.name) and Path(file).resolve() == path:
            return name
    return None


def _import(path: Path) -> str:
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: it must not shadow an installed package
    name = path.stem
    if name.isidentifier() and name not in sys.modules:
        importlib.invalidate_caches()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin and Path(spec.origin).resolve() == path:
            importlib.import_module(name)
            return name
    return _import_hashed(path)


def _import_hashed(path: Path) -> str:
    name = f"local_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return name
