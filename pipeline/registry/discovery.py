"""Which components the installed packages offer, read from their metadata alone.

The only module that knows the ``entrypoints`` package. It scans archives with that package, and folders
file by file with its parser, because its own scan ends at the first file that it cannot parse.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from entrypoints import (  # type: ignore[import-untyped]
    BadEntryPoint,
    CaseSensitiveConfigParser,
    EntryPoint,
    iter_files_distros,
)

from pipeline.api.kinds import RULES, Kind
from pipeline.registry.distributions import display_name, normalised, version_key

_UNREADABLE = (configparser.Error, UnicodeDecodeError, OSError, zipfile.BadZipFile)
_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


@dataclass(frozen=True, order=True)
class Entry:
    """One entry point of one of the eight groups."""

    kind: Kind
    name: str
    target: str
    """``module:object``, as the package wrote it."""
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """Who offers it, as ``acme-vision 1.2 (entry point "acme.models:ResNet")``."""
        return f'{self.distribution} {self.version} (entry point "{self.target}")'


@dataclass(frozen=True)
class Discovery:
    """The entries of a search path, and what was wrong with its metadata."""

    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Metadata:
    """One metadata folder of a distribution."""

    folder: str
    distribution: str
    version: str
    offers: frozenset[tuple[Kind, str, str]]
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.version} in {self.folder}"


@lru_cache(maxsize=1)
def discover(path: tuple[str, ...]) -> Discovery:
    """Read the metadata on a search path; the last path's result is kept for the process.

    Of two metadata folders of one distribution the higher version within one folder is used, and
    the first on the path across folders.
    """
    warnings: list[str] = []
    chosen: dict[str, _Metadata] = {}
    for folder in _folders(path):
        found, faults = _read_folder(folder)
        warnings += faults
        for metadata in sorted(found, key=lambda m: version_key(m.version), reverse=True):
            key = normalised(metadata.distribution)
            first = chosen.setdefault(key, metadata)
            if first.offers != metadata.offers:
                warnings.append(
                    f"{metadata.distribution} is on the path twice with different components: "
                    f"{first.label} is used, {metadata.label} is not"
                )
    entries = [
        Entry(*offer, metadata.distribution, metadata.version)
        for metadata in chosen.values()
        for offer in metadata.offers
    ]
    warnings += [warning for metadata in chosen.values() for warning in metadata.warnings]
    return Discovery(tuple(sorted(entries)), tuple(warnings))


def discover_installed() -> Discovery:
    """The components on ``sys.path``, read once per process as long as the path stays as it is."""
    return discover(tuple(entry for entry in sys.path if isinstance(entry, str)))


def _folders(path: Iterable[str]) -> Iterator[str]:
    """The path's folders and zip files that exist, each once."""
    seen = set()
    for folder in path:
        place = os.path.realpath(folder or ".")
        if place not in seen and Path(place).exists():
            seen.add(place)
            yield folder or "."


def _read_folder(folder: str) -> tuple[list[_Metadata], list[str]]:
    try:
        if Path(folder).is_dir() and not folder.rstrip("/\\").endswith(".egg"):
            return _read_one_by_one(folder)
        found = [
            _metadata(folder, distro.name, distro.version, parser)
            for parser, distro in iter_files_distros([folder], repeated_distro="all")
        ]
    except _UNREADABLE as error:
        return [], [_lost(folder, error)]
    return found, []


def _read_one_by_one(folder: str) -> tuple[list[_Metadata], list[str]]:
    """As the library reads a folder, but going on behind a file that it cannot parse, and with one parser.

    To make a parser takes longer than to read a file with it.
    """
    found, warnings = [], []
    parser = CaseSensitiveConfigParser(delimiters=("=",))
    for info in _metadata_folders(folder):
        file = Path(folder, info, "entry_points.txt")
        parser.clear()
        parser.defaults().clear()
        try:
            parser.read_string(file.read_text("utf-8"), source=str(file))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except _UNREADABLE as error:
            warnings.append(_lost(file, error))
            continue
        name, _, version = info.rpartition(".")[0].partition("-")
        found.append(_metadata(folder, name, version or None, parser))
    return found, warnings


def _metadata_folders(folder: str) -> list[str]:
    """The names of a folder's metadata folders; of one distribution's, dist-info comes first."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(tuple(_METADATA))]
    return sorted(names, key=lambda name: (name.endswith(".egg-info"), name))


def _lost(file: Path | str, error: Exception) -> str:
    reason = " ".join(str(error).split())
    return f"{file} cannot be read, so its components are missing: {reason}"


def _metadata(folder: str, name: str, version: str | None, parser: configparser.ConfigParser) -> _Metadata:
    offers, warnings = set(), []
    for kind, rules in RULES.items():
        if parser.has_section(rules.group):
            for entry, text in parser.items(rules.group, raw=True):
                target = _target(entry, text)
                offers.add((kind, entry, target or text))
                if target is None:
                    warnings.append(
                        f'{display_name(name)}: the entry point "{entry} = {text}" of {rules.group} '
                        "cannot be parsed; expected module:object"
                    )
    if offers:  # the headers know the name as its author writes it; nobody else's are opened
        name, version = _headers(folder, name, version)
    return _Metadata(folder, display_name(name), version or "?", frozenset(offers), tuple(warnings))


def _target(name: str, text: str) -> str | None:
    try:
        point = EntryPoint.from_string(text, name)
    except BadEntryPoint:
        return None
    return f"{point.module_name}:{point.object_name}" if point.object_name else None


def _headers(folder: str, name: str, version: str | None) -> tuple[str, str | None]:
    """Name and version as the metadata's own headers have them; else as its folder is called."""
    stem = f"{name}-{version}" if version else name
    places = [Path(folder) / f"{stem}{suffix}" / file for suffix, file in _METADATA.items()]
    for place in (*places, Path(folder) / "EGG-INFO" / "PKG-INFO"):
        if place.is_file():
            head = place.read_text("utf-8", errors="replace").partition("\n\n")[0]
            fields = dict(re.findall(r"^(Name|Version):\s*(\S+)\s*$", head, re.MULTILINE))
            return fields.get("Name", name), fields.get("Version", version)
    return name, version
