"""Importing the object behind an entry point, and what is left of a package that does not import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from pipeline.config.plan import Fault
from pipeline.config.wording import nearest
from pipeline.registry.discovery import Entry
from pipeline.registry.tracebacks import user_traceback

_32 = 0xFFFFFFFF


def load_entry(entry: Entry) -> Any | Fault:
    """The object that an entry point names, or why there is none.

    The fault tells a broken package from an unknown name: it gives the distribution, its version,
    the entry point's text and the original exception with the frames of its author's code.
    """
    module_name, _, attribute = entry.target.partition(":")
    if not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        return _broken(entry, "its entry point cannot be parsed", expected="module:object")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- a package may raise anything
        return _broken(entry, f"importing it raised {type(error).__name__}", error)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            near = nearest(part, dir(found), most=None)
            return _broken(entry, f"{module_name} has no {part!r}", error, nearest=near)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- a module's __getattr__ may raise anything
            return _broken(entry, f"looking it up raised {type(error).__name__}", error)
    if not callable(found):
        return _broken(entry, f"it is a {type(found).__name__}", expected="a class or a function")
    return found


def _broken(
    entry: Entry, reason: str, error: BaseException | None = None, *, expected: str = "", nearest: str = ""
) -> Fault:
    message = f"{entry.kind} {entry.name!r} of {entry.origin} cannot be loaded: {reason}"
    detail = user_traceback(error) if error else ""
    return Fault(("type",), message, expected, nearest, detail)


def visible_problem(entry: Entry) -> str | None:
    """What is wrong with an entry as far as it shows without importing anything of it.

    That is a target that cannot be parsed, a module that is not there, and a syntax error; what
    only running the module would show (a missing dependency) does not.
    """
    module_name, _, attribute = entry.target.partition(":")
    if not attribute:
        return f"the entry point {entry.target!r} is no module:object"
    spec = find_without_import(module_name)
    if spec is None:
        return f"there is no module {module_name}"
    if module_name in sys.modules or not spec.origin or not spec.origin.endswith(".py"):
        return None
    if _was_compiled(spec):
        return None
    try:
        compile(_source(spec.loader, spec.origin), spec.origin, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _was_compiled(spec: ModuleSpec) -> bool:
    """Whether Python keeps bytecode of this very text, so that it has no syntax error."""
    try:
        text = Path(spec.origin or "").stat()
        with Path(spec.cached or "").open("rb") as file:
            head = file.read(16)
    except OSError:
        return False
    stamp = b"".join(
        number.to_bytes(4, "little") for number in (0, int(text.st_mtime) & _32, text.st_size & _32)
    )
    return head == importlib.util.MAGIC_NUMBER + stamp


def _source(loader: object, origin: str) -> bytes:
    """A module's text, out of a zip file too."""
    content: bytes = loader.get_data(origin) if hasattr(loader, "get_data") else Path(origin).read_bytes()
    return content


def find_without_import(module_name: str) -> ModuleSpec | None:
    """A module's spec; unlike ``importlib.util.find_spec`` its parent packages are not imported."""
    top, *rest = module_name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    name = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
        specs = (finder.find_spec(name, spec.submodule_search_locations) for finder in finders)
        spec = next((found for found in specs if found), None)
    return spec
