"""``pipeline new``: the package that it makes installs, passes its tests, checks and trains."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

from runs_of import only_run, record_of, rows_of
from tiny_runs import call, modules_of

DEADLINE = 300.0  # seconds, for one command
PIP_OPTIONS = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]


def sorted_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "Acme-Shapes"
    result = call("new", folder)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def site(package) -> Path:
    """A folder that it is installed in, as pip does it; for PYTHONPATH."""
    target = package.parent / "site"
    python("-m", "pip", "install", *PIP_OPTIONS, "--target", target, package, site=None)
    return target


def python(*arguments: object, site: Path | None, cwd: Path | None = None) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if site:
        environment["PYTHONPATH"] = str(site)
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env=environment,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_has_what_a_package_needs(package):
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert project["name"] == "acme-shapes"
    assert set(project["entry-points"]) == {"pipeline.models", "pipeline.datasets", "pipeline.hooks"}
    assert "@" not in "".join((package / file).read_text() for file in sorted_files(package))
    assert {".gitignore", "README.md", "acme_shapes.toml", "tests/test_components.py"} <= set(
        sorted_files(package)
    )


def test_it_installs_and_passes_its_own_tests(package, site):
    """REQ-10: a package with three entry points, and no change to the product."""
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", site=site, cwd=package)
    assert "4 passed" in said


def test_its_components_are_listed_and_it_passes_a_check(package, site):
    listed = python("-m", "pipeline", "components", "model", "acme_shapes_net", site=site)
    assert "acme-shapes 0.1.0" in listed and "width of the layer between." in listed
    said = python("-m", "pipeline", "check", "acme_shapes.toml", "--world-size", "2", site=site, cwd=package)
    assert said.splitlines()[-1].endswith("no problems")


def test_it_trains_with_torchrun_on_two_ranks(package, site, tmp_path):
    """REQ-10."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pipeline"]
    options = ["--runs-dir", tmp_path, "--set", "distributed.threads=1"]
    python(*launch, "run", "acme_shapes.toml", *options, site=site, cwd=package)
    record = record_of(only_run(tmp_path))
    assert (record["status"], record["world_size"]) == ("completed", 2)
    assert record["metrics"]["eval/accuracy"] > 0.8
    assert any("weight_norm" in row for row in rows_of(only_run(tmp_path)))
    assert {part["distribution"] for part in record["components"]} == {"acme-shapes", "pipeline-ddp"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("1shape", "can be no package's name"),
        ("acme+shapes", "can be no package's name"),
        ("class", "can be no package's name"),
        ("json", "is another module's"),
        ("pipeline", "is another module's"),
        ("full", "is not empty"),
        ("file", "is a file"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(tmp_path, name, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted_files(tmp_path)
    result = call("new", tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert sorted_files(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    real = Path.write_text

    def failing(path, *arguments, **options):
        if path.name == "hook.py":
            raise OSError(28, "No space left on device")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", failing)
    result = call("new", tmp_path / "acme")
    assert result.exit_code == 2
    assert "No space left" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled_without_torch(tmp_path):
    (tmp_path / "acme").mkdir()
    assert "torch" not in modules_of("new", tmp_path / "acme")
    assert (tmp_path / "acme" / "pyproject.toml").is_file()


def test_an_editable_install_is_found_and_follows_its_source(package, tmp_path):
    """REG-05: by its metadata in one folder, with its code in another."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    source = shutil.copytree(package, tmp_path / "source")
    python("-m", "pip", "--python", home, "install", *PIP_OPTIONS, "--editable", source, site=None)
    assert not list(packages.glob("acme_shapes/*"))
    net = next(file for file in source.rglob("*.py") if "width of the layer between." in file.read_text())
    net.write_text(net.read_text().replace("width of the layer between.", "changed in place."))
    line = [home / "bin" / "python", "-m", "pipeline", "components", "model", "acme_shapes_net"]
    listed = subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "acme-shapes 0.1.0" in listed.stdout and "changed in place." in listed.stdout
