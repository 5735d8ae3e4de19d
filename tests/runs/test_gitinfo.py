from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.runs import gitinfo
from pipeline.runs.gitinfo import read_git
from pipeline.runs.record import Git

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@needs_git
def test_commit_and_dirty_flag(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert read_git(repository) == Git(commit, dirty=False)
    (repository / "runs").mkdir()
    (repository / "runs" / "new").write_text("")  # untracked: a runs folder makes no code dirty
    assert read_git(repository / "runs") == Git(commit, dirty=False)
    (repository / "a.py").write_text("2")
    assert read_git(repository) == Git(commit, dirty=True)


@needs_git
def test_outside_a_repository_and_before_the_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert read_git(tmp_path) is None
    assert read_git(tmp_path / "missing") is None
    git(tmp_path, "init", "-q")
    assert read_git(tmp_path) is None


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_git(tmp_path) is None


def test_a_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gitinfo, "_TIMEOUT", 0.1)
    assert read_git(tmp_path) is None
