"""``--soak``: full counts, a page of results, and no skip that passes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest

def test_counted(count):
    assert count(2, 3000) in (2, 3000)

@pytest.mark.skipif({skip}, reason="no such machine")
def test_maybe():
    pass
"""


EARLY = """
from pathlib import Path

def pytest_unconfigure(config):
    if hasattr(config, "workerinput") and Path("docs/soak.md").read_text():
        Path("early").touch()
"""


def soak(folder: Path, *options: str, skip: bool) -> subprocess.CompletedProcess[str]:
    """A pytest of its own on two tests, of which the second may be skipped."""
    (folder / "test_suite.py").write_text(SUITE.format(skip=skip))
    support = Path(__file__).parent / "support"
    command = [sys.executable, "-m", "pytest", "-p", "soak", "--rootdir", str(folder), *options, str(folder)]
    environment = {"PYTHONPATH": str(support), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_full_counts_and_the_page(tmp_path):
    done = soak(tmp_path, "--soak", skip=False)
    assert done.returncode == 0, done.stdout
    page = (tmp_path / "docs" / "soak.md").read_text()
    assert "- tests: 2 passed, 0 failed, 0 error, 0 skipped" in page
    assert "| `test_suite.py::test_counted` | 3000 |" in page
    assert page.endswith("None.\n")


def test_a_skip_fails_and_is_named(tmp_path):
    done = soak(tmp_path, "--soak", skip=True)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "- skipped: `test_suite.py::test_maybe`" in (tmp_path / "docs" / "soak.md").read_text()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "workers"])
def test_the_commit_is_that_of_the_start_whatever_the_suite_leaves(tmp_path, options):
    """Pages of xdist's workers, too, made each checkout one with changes not committed."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    page = tmp_path / "docs" / "soak.md"
    page.parent.mkdir()
    page.write_text("")
    (tmp_path / "conftest.py").write_text(EARLY)
    (tmp_path / "test_leaves.py").write_text("def test_leaves():\n    open('left', 'w').close()\n")
    (tmp_path / "test_suite.py").write_text(SUITE.format(skip=False))
    (tmp_path / ".gitignore").write_text("__pycache__\n.pytest_cache\n")
    for words in ("init -q", "add .", "commit -qm x"):
        subprocess.run([*git, *words.split()], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
    )
    for changed in ("", " with changes not committed"):  # the second finds what the first has left
        page.write_text("")
        done = soak(tmp_path, "--soak", *options, skip=False)
        assert done.returncode == 0, done.stdout
        text = page.read_text()
        assert f"- commit: {head.stdout.strip()}{changed}\n" in text and "- tests: 3 passed" in text
        assert not (tmp_path / "early").exists()


def test_to_collect_is_no_soak(tmp_path):
    done = soak(tmp_path, "--soak", "--collect-only", skip=False)
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "docs").exists()


def test_without_it_counts_are_small_skips_pass_and_nothing_is_written(tmp_path):
    done = soak(tmp_path, skip=True)
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize(("options", "expected"), [([], "4 passed, 7 deselected"), (["--soak"], "11 passed")])
def test_what_takes_long_is_for_soaks(tmp_path, options, expected):
    (tmp_path / "distributed").mkdir()
    (tmp_path / "distributed" / "test_many.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('case', range(7))\n"
        "def test_case(case):\n    assert case in range(7)\n"
        "@pytest.mark.soak\n"
        "@pytest.mark.parametrize('case', range(3))\n"
        "def test_long(case):\n    pass\n"
        "def test_one():\n    pass\n"
    )
    support = Path(__file__).parent / "support"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "soak",
        "--rootdir",
        str(tmp_path),
        *options,
        str(tmp_path),
    ]
    environment = {"PYTHONPATH": str(support), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert expected in done.stdout
