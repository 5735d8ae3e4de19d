"""The layers of a config: the files it extends, the file itself, and the overrides on top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from pipeline.config.document import Document, open_regular, read_document, unusable_keys
from pipeline.config.keys import KeyPath, copied, dotted, find
from pipeline.config.overrides import Override, parse_edits, parse_overrides
from pipeline.config.plan import Place, Source
from pipeline.config.report import Finding, Report
from pipeline.config.wording import show, show_path
from pipeline.errors import ConfigError, Problem

_MAX_FILES = 64


@dataclass(frozen=True)
class Layer:
    """One file of a config."""

    file: str
    """As the user named it, or as it follows from that."""
    folder: Path
    """What relative paths in it are relative to, absolute."""
    tree: Mapping[str, Any]
    places: Mapping[KeyPath, Place]
    edits: tuple[Override, ...] = ()
    """What it says under ``unset`` and ``set``, in the order in which it acts."""
    extended_by: tuple[Place, ...] = ()
    """Where it is named, and where the file that names it is, up to the file that was asked for."""


@dataclass(frozen=True)
class Layers:
    """A config as it was written, before anything is merged."""

    path: Path
    """The file that was asked for."""
    files: tuple[Layer, ...]
    """In the order in which they are merged: what is extended comes first, ``path`` last."""
    overrides: tuple[Override, ...]
    """In the order in which they act; they are one layer, the last."""
    working_folder: Path
    """What relative paths in overrides are relative to, absolute."""
    components: tuple[Path, ...]
    """Local files that register components, absolute."""
    component_places: tuple[Place, ...]
    """Where each of them is named."""
    sources: tuple[Source, ...]
    """Every file that went in: configs and local components."""
    findings: tuple[Finding, ...] = ()
    """What is wrong already; the rest can still be checked."""
    broken: frozenset[KeyPath] = field(default_factory=frozenset)
    """Keys left out because their values cannot be used."""

    def trees(self) -> Iterator[Mapping[str, Any]]:
        """What each file and each override says, by itself."""
        yield from (layer.tree for layer in self.files)
        for override in (*(edit for layer in self.files for edit in layer.edits), *self.overrides):
            value = override.value
            for name in reversed(override.key):
                value = {name: value}
            yield value

    @property
    def chains(self) -> Mapping[str, str]:
        """For each file, in the order in which they are merged, how it came to be read."""
        return {layer.file: ", that by ".join(map(str, layer.extended_by)) for layer in self.files}


def read(path: str | Path, *, sets: Sequence[str] = (), unsets: Sequence[str] = ()) -> Layers:
    """Read a config and everything it extends.

    Args:
        path: the TOML file.
        sets: overrides ``a.b.c=VALUE``.
        unsets: keys to take out again.

    Raises:
        ConfigError: if one of the files cannot be read, with all faults of all files.
    """
    report = Report()
    overrides = parse_overrides(sets, unsets, report=report)
    reading = _Reading(report)
    reading.file(Path(path), ())
    if reading.unreadable:
        raise ConfigError(reading.unreadable)
    components = _components(reading.layers, overrides, report)
    local = tuple(source for source, _ in components)
    sources = [Source(document.path.absolute(), document.text) for document in reading.documents]
    return Layers(
        path=Path(path),
        files=tuple(reading.layers),
        overrides=overrides,
        working_folder=Path.cwd(),
        components=tuple(source.path for source in local),
        component_places=tuple(place for _, place in components),
        sources=(*sources, *local),
        findings=tuple(report.findings),
        broken=frozenset(reading.broken),
    )


@dataclass
class _Reading:
    """Following ``extends`` depth first; each base file becomes a layer before who extends it."""

    report: Report
    layers: list[Layer] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    unreadable: list[Problem] = field(default_factory=list)
    broken: set[KeyPath] = field(default_factory=set)

    def file(self, path: Path, chain: tuple[Path, ...], named: tuple[Place, ...] = ()) -> None:
        """Read one file; ``chain`` is how it was reached, ``named`` where each was named, this one first."""
        try:
            document = read_document(path)
        except ConfigError as error:
            self.unreadable += [_named(problem, named[:1]) for problem in error.problems]
            return
        chain = (*chain, path)
        for name, place in self._extends(document):
            base = path.parent / name
            if _same(base, chain):
                cycle = " -> ".join(str(link) for link in (*chain, base))
                self._refuse(place, f"{show_path(name)} extends itself: {cycle}")
            elif len(self.documents) + len(chain) > _MAX_FILES:
                self._refuse(place, f"more than {_MAX_FILES} files extend one another")
                return
            else:
                self.file(base, chain, (place, *named))
        self.documents.append(document)
        self.layers.append(self._layer(document, named))

    def _extends(self, document: Document) -> list[tuple[str, Place]]:
        """The files that a document extends, each with the place that names it."""
        value = document.tree.get("extends", [])
        names = value if isinstance(value, list) else [value]
        place = document.places.get(("extends",), Place(str(document.path)))
        if not all(isinstance(name, str) and name and "\0" not in name for name in names):
            self._refuse(place, f"got {show(value)}", "a file name or a list of them")
            return []
        return [(name, document.places.get(("extends", number), place)) for number, name in enumerate(names)]

    def _refuse(self, place: Place, message: str, expected: str = "") -> None:
        self.unreadable.append(Problem(str(place), "extends", message, expected))

    def _layer(self, document: Document, named: tuple[Place, ...]) -> Layer:
        """The document less ``extends``, ``unset``, ``set`` and what cannot be used, which is reported."""
        tree = copied(document.tree)
        tree.pop("extends", None)
        unsets = list(self._texts(document, "unset", tree.pop("unset", []), 'keys, as ["hooks.progress"]'))
        sets = list(
            self._texts(document, "set", tree.pop("set", []), 'overrides, as ["hooks.ema.decay=0.9"]')
        )
        edits = parse_edits(sets, unsets, report=self.report)
        for path, message, expected in list(unusable_keys(tree)):
            place = document.places.get(path, Place(str(document.path)))
            self.report.add(place, dotted(path), message, expected=expected)
            key = tuple(takewhile(lambda part: isinstance(part, str), path))  # an array goes as a whole
            self.broken.add(key)
            (find(tree, key[:-1]) or {}).pop(key[-1], None)
        return Layer(str(document.path), document.folder, tree, document.places, edits, named)

    def _texts(self, document: Document, key: str, texts: Any, expected: str) -> Iterator[tuple[str, Place]]:
        """What a document lists under a key, each with its place."""
        place = document.places.get((key,), Place(str(document.path)))
        if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
            self.report.add(place, key, f"got {show(texts)}", expected=f"a list of {expected}")
            return
        for number, text in enumerate(texts):
            yield text, document.places.get((key, number), place)


def _named(problem: Problem, named: tuple[Place, ...]) -> Problem:
    """A file that does not exist is a fault of the line that names it."""
    if not named or ":" in problem.place.rpartition("/")[2]:
        return problem
    return Problem(str(named[0]), "extends", f"{problem.place}: {problem.message}", problem.expected)


def _same(path: Path, chain: tuple[Path, ...]) -> bool:
    return any(link.absolute().resolve() == path.absolute().resolve() for link in chain)


@dataclass(frozen=True)
class _Named:
    """A local file as a layer names it."""

    name: Any
    folder: Path
    place: Place


def _components(
    files: Sequence[Layer], overrides: Sequence[Override], report: Report
) -> list[tuple[Source, Place]]:
    """The local files that ``components`` names once all layers are merged, read; each with its place."""
    named: list[_Named] = []
    for layer in files:
        _take_out(named, layer.edits)
        if "components" in layer.tree:
            place = layer.places.get(("components",), Place(layer.file))
            named = [
                _Named(name, layer.folder, layer.places.get(("components", number), place))
                for number, name in enumerate(_listed(layer.tree["components"], place, report))
            ]
        _set(named, layer.edits, layer.folder, report)
    _take_out(named, overrides)
    _set(named, overrides, Path.cwd(), report)
    return [source for one in named for source in _read_local(one, report)]


def _set(named: list[_Named], edits: Sequence[Override], folder: Path, report: Report) -> None:
    """Do to the list what setting it, an element of it, or appending to it does to the tree."""
    for edit in edits:
        value = edit.value
        if edit.key == ("components",) and edit.kind == "append":
            replaced, value = slice(len(named), None), value if isinstance(value, list) else [value]
        elif edit.key == ("components",) and edit.kind == "set":
            replaced = slice(0, None)
        elif edit.kind == "set" and _is_element(edit.key):
            replaced, value = slice(int(edit.key[1]), int(edit.key[1]) + 1), [value]
        else:
            continue
        named[replaced] = [_Named(name, folder, edit.place) for name in _listed(value, edit.place, report)]


def _take_out(named: list[_Named], edits: Sequence[Override]) -> None:
    """Do to the list what taking out keys does to the tree."""
    keys = [edit.key for edit in edits if edit.kind == "unset"]
    if ("components",) in keys:
        named.clear()
    positions = {int(key[1]) for key in keys if _is_element(key)}
    for position in sorted(positions, reverse=True):
        del named[position : position + 1]


def _is_element(key: tuple[str, ...]) -> bool:
    """Whether a key is the position of one of the files."""
    name = key[-1]
    return len(key) == 2 and key[0] == "components" and name.isdecimal() and name.isascii() and len(name) < 10


def _listed(value: Any, place: Place, report: Report) -> list[str]:
    if isinstance(value, list) and all(isinstance(name, str) and name and "\0" not in name for name in value):
        return value
    report.add(place, "components", f"got {show(value)}", expected="a list of Python files")
    return []


def _read_local(named: _Named, report: Report) -> Iterator[tuple[Source, Place]]:
    try:
        path = (named.folder / named.name).absolute()
        with open_regular(path) as file:
            yield Source(path, file.read()), named.place
    except OSError as error:
        message = f"{show_path(named.name)} cannot be read: {error.strerror}"
        expected = "a Python file, relative to this config"
        moved = "--set 'components=[\"FILE\"]' names one that was moved"
        report.add(named.place, "components", message, expected=f"{expected}; {moved}")
