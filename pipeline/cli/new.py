"""``pipeline new``: a package of components to start from."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from pipeline.cli.output import CONFIG_ERROR, leave_with

_TAKEN = {"pipeline", "torch", "numpy", "tests", "test", "src"}
_NAMES = {"gitignore": ".gitignore", "config.toml": "@package@.toml"}
"""Files of the template whose names are others in the package."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Make a package of components in DIR: a model, a dataset, a hook, tests, and a config that uses them.

    The package has DIR's own name. It installs, passes its tests and trains as it is.

    Exit status: 0 made, 2 DIR is not empty, or its name can be no package's.
    """
    folder = Path(folder.absolute())
    package = re.sub(r"[-. ]+", "_", folder.name.lower())
    if problem := _problem(folder, package):
        leave_with(f"error: {problem}", CONFIG_ERROR)
    words = {"@package@": package, "@distribution@": package.replace("_", "-")}
    try:
        _make(folder, package, words)
    except OSError as error:
        leave_with(f"error: {folder} cannot be made: {error.strerror or error}", CONFIG_ERROR)
    click.echo(f"{folder}: a package {words['@distribution@']} with a model, a dataset and a hook")
    click.echo(f"next: pip install -e {folder}; pipeline check {folder / package}.toml")


def _problem(folder: Path, package: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package) or keyword.iskeyword(package):
        return f"{folder.name!r} can be no package's name; expected letters, digits and '-', as acme-vision"
    if package in _TAKEN or package in sys.stdlib_module_names:
        return (
            f"the name {package!r} is another module's; choose another, as acme-{package.replace('_', '-')}"
        )
    if folder.is_dir() and any(folder.iterdir()):
        return f"{folder} is not empty; expected a folder that is not there, or has nothing in it"
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file; expected a folder that is not there, or has nothing in it"
    return None


def _make(folder: Path, package: str, words: Mapping[str, str]) -> None:
    """Write all files beside, and give the whole its name: nothing half-written is left."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}-{os.getpid()}")
    beside.mkdir()
    try:
        _copy(files("pipeline.cli") / "template", beside, package, words)
        beside.replace(folder)
    except BaseException:
        shutil.rmtree(beside)
        raise


def _copy(source: Traversable, target: Path, package: str, words: Mapping[str, str]) -> None:
    for entry in source.iterdir():
        if entry.is_dir():
            inner = target / entry.name / package if entry.name == "src" else target / entry.name
            inner.mkdir(parents=True)
            _copy(entry, inner, package, words)
        elif entry.name.endswith(".in"):
            name = entry.name.removesuffix(".in")
            path = target / _filled(_NAMES.get(name, name), words)
            path.write_text(_filled(entry.read_text(encoding="utf-8"), words), encoding="utf-8")


def _filled(text: str, words: Mapping[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
