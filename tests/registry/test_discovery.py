"""Reading metadata folder by folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipeline.api.kinds import Kind
from pipeline.registry import discovery
from pipeline.registry.discovery import discover
from pipeline.registry.distributions import normalised, version_key

MODEL = "[pipeline.models]\ntiny = {}:Tiny\n"


def read(*folders: Path | str) -> discovery.Discovery:
    return discover(tuple(map(str, folders)))


def test_entries_carry_kind_name_target_distribution_and_version(install):
    site = install(
        "acme-vision", "1.2", MODEL.format("acme.models") + "[console_scripts]\nacme = acme:main\n"
    )
    (entry,) = read(site).entries
    assert (entry.kind, entry.name, entry.target) == (Kind.MODEL, "tiny", "acme.models:Tiny")
    assert (entry.distribution, entry.version) == ("acme-vision", "1.2")


@pytest.mark.parametrize("content", [b"no section = 1\n", b"[a]\nx = 1\nx = 2\n", b"\xff\xfe[a]"])
def test_malformed_file_is_reported_and_the_folder_stays(install, content):
    """REG-01: a malformed entry_points.txt of any project loses nobody else's components."""
    site = install("aaa-good", entries=MODEL.format("aaa"))
    install("zzz-good", entries=MODEL.format("zzz"))
    bad = site / "mmm_broken-3.0.dist-info" / "entry_points.txt"
    bad.parent.mkdir()
    bad.write_bytes(content)
    found = read(site)
    assert [entry.distribution for entry in found.entries] == ["aaa-good", "zzz-good"]
    (warning,) = found.warnings
    assert str(bad) in warning


def test_defaults_of_one_file_are_not_those_of_the_next(install):
    install("aaa", entries="[DEFAULT]\nstray = aaa:Stray\n[pipeline.models]\nown = aaa:Own\n")
    site = install("zzz", entries=MODEL.format("zzz"))
    found = {(entry.distribution, entry.name) for entry in read(site).entries}
    assert found == {("aaa", "own"), ("aaa", "stray"), ("zzz", "tiny")}


def test_a_file_that_may_not_be_read_is_reported(install, monkeypatch):
    """REG-01: it is skipped, and the metadata of a distribution without entry points is no fault."""
    site = install("good", entries=MODEL.format("good"))
    (site / "bare-1.0.dist-info").mkdir()
    (site / "file.egg-info").write_text("Name: file\n")
    bad = site / "bad-1.0.dist-info" / "entry_points.txt"
    bad.mkdir(parents=True)
    found = read(site)
    assert [entry.distribution for entry in found.entries] == ["good"]
    (warning,) = found.warnings
    assert warning.startswith(f"{bad} cannot be read, so its components are missing: ")


def test_a_folder_that_may_not_be_read_and_a_damaged_archive_are_reported(install, tmp_path, monkeypatch):
    """REG-01: what is elsewhere on the path is found."""
    good = install("good", entries=MODEL.format("good"), folder="good")
    closed, damaged = tmp_path / "closed", tmp_path / "damaged.zip"
    closed.mkdir()
    with zipfile.ZipFile(damaged, "w") as bundle:
        bundle.writestr("bad-1.0.dist-info/entry_points.txt", MODEL.format("bad") * 50)
    data = damaged.read_bytes()
    damaged.write_bytes(data.replace(b"tiny", b"TINY", 1))  # its checksum is another's now
    scandir = discovery.os.scandir

    def refusing(folder):
        if folder == str(closed):
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(discovery.os, "scandir", refusing)  # root may read any
    found = read(closed, damaged, good)
    assert [entry.distribution for entry in found.entries] == ["good"]
    assert [warning.partition(" ")[0] for warning in found.warnings] == [str(closed), str(damaged)]


def test_eggs_are_read(tmp_path):
    """A folder and an archive, as old installations have them on the path; a broken one is reported."""
    folder, archive, broken = (tmp_path / f"{name}-1.0-py3.11.egg" for name in ("folder", "zip", "bad"))
    for egg, text in ((folder, MODEL.format("folder")), (broken, "no section = 1")):
        (egg / "EGG-INFO").mkdir(parents=True)
        (egg / "EGG-INFO" / "entry_points.txt").write_text(text)
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("EGG-INFO/entry_points.txt", MODEL.format("zipped"))
    found = read(folder, archive, broken)
    assert {(entry.distribution, entry.target) for entry in found.entries} == {
        ("folder", "folder:Tiny"), ("zip", "zipped:Tiny"),
    }  # fmt: skip
    (warning,) = found.warnings
    assert warning.startswith(f"{broken} cannot be read")


def test_unparsable_entry_is_reported_and_listed(install):
    site = install("acme", entries="[pipeline.models]\nbad = what is this\ngood = acme:Good\n")
    found = read(site)
    assert [entry.name for entry in found.entries] == ["bad", "good"]
    assert "bad = what is this" in found.warnings[0]


def test_percent_signs_are_no_interpolation(install):
    site = install("acme", entries="[pipeline.models]\nhalf%d = acme:Half\n")
    assert [entry.name for entry in read(site).entries] == ["half%d"]


def test_higher_version_within_a_folder_wins_with_a_warning(install):
    install("acme", "1.9", MODEL.format("old"))
    site = install("acme", "1.10", MODEL.format("new"))
    found = read(site)
    assert [(entry.target, entry.version) for entry in found.entries] == [("new:Tiny", "1.10")]
    (warning,) = found.warnings
    assert "1.10 in" in warning and "1.9 in" in warning


def test_first_folder_wins_across_folders_whatever_its_version(install):
    first = install("Acme_Vision", "1.0", MODEL.format("one"), folder="first")
    second = install("acme-vision", "2.0", MODEL.format("two"), folder="second")
    assert [entry.target for entry in read(first, second).entries] == ["one:Tiny"]
    assert [entry.target for entry in read(second, first).entries] == ["two:Tiny"]
    assert len(read(first, second).warnings) == 1


def test_equal_entries_are_one_without_a_warning(install):
    first = install("acme", "1.0", MODEL.format("one"), folder="first")
    second = install("acme", "1.0", MODEL.format("one"), folder="second")
    found = read(first, second, first)
    assert len(found.entries) == 1 and found.warnings == ()


def test_egg_info_without_a_version_takes_it_from_its_headers(tmp_path):
    info = tmp_path / "acme_vision.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Name: acme-vision\nVersion: 0.3\n\n")
    (info / "entry_points.txt").write_text(MODEL.format("acme"))
    (entry,) = read(tmp_path).entries
    assert (entry.distribution, entry.version) == ("acme-vision", "0.3")


def test_missing_folders_and_zip_files(tmp_path):
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("acme-1.0.dist-info/entry_points.txt", MODEL.format("acme"))
    found = read(tmp_path / "missing", archive, "")
    assert "acme" in {entry.distribution for entry in found.entries}


def test_400_distributions_cost_one_scan_and_no_import(install, monkeypatch):
    """REG-07: metadata is enumerated once per process and no plugin module is imported.

    Nor is a parser made for each, which took most of the time of reading them.
    """
    site = install("acme-0", entries=MODEL.format("plugin_0"), modules={"plugin_0": "raise SystemExit"})
    for index in range(1, 400):
        info = site / f"acme_{index}-1.0.dist-info"
        info.mkdir()
        group = "pipeline.models" if index < 3 else "console_scripts"
        (info / "entry_points.txt").write_text(f"[{group}]\nname_{index} = plugin_{index}:Thing\n")
    scans, parsers = [], []
    read_folder, parser = discovery._read_folder, discovery.CaseSensitiveConfigParser
    monkeypatch.setattr(discovery, "_read_folder", lambda folder: scans.append(folder) or read_folder(folder))
    monkeypatch.setattr(
        discovery, "CaseSensitiveConfigParser", lambda **options: parsers.append(1) or parser(**options)
    )
    first = discovery.discover_installed()
    after_one = len(scans)
    assert discovery.discover_installed() is first
    assert len(scans) == after_one and scans.count(str(site)) == 1
    assert 0 < len(parsers) <= len(scans)
    assert {"tiny", "name_1", "name_2"} <= {entry.name for entry in first.entries}
    assert not [module for module in sys.modules if module.startswith("plugin_")]


def test_failed_discovery_is_not_kept(monkeypatch):
    discover.cache_clear()
    with monkeypatch.context() as broken:
        broken.setattr(discovery, "_folders", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            discovery.discover_installed()
    assert discovery.discover_installed().entries


def test_listing_imports_neither_torch_nor_pydantic_nor_a_component():
    code = (
        "import sys; from pipeline.registry.registry import Registry\n"
        "names = {line.name for line in Registry.discover().listing()}\n"
        "assert {'adamw', 'mlp', 'warmup_cosine'} <= names, names\n"
        "assert not {'torch', 'pydantic'} & sys.modules.keys()\n"
        "assert not [name for name in sys.modules if name.startswith('pipeline.components')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONWARNINGS": "error"})


def test_version_order():
    ordered = ["1.0.dev1", "1.0a2", "1.0b1", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.2", "1.10", "2"]
    assert sorted(set(ordered), key=version_key) == ordered
    assert normalised("Acme__Vision.x") == "acme-vision-x"
